"""The settings that the step needs: small, without secrets, kept with each checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class StepSettings:
    """The settings of one queue's step; each `max_…` holds for one queue.

    `max_output_bytes` limits a batch's output beyond its own records, and the ops read again.
    `max_ops` limits the number of ops read again.
    `group_topics` has the patterns of the topics that a group may publish to; the group `*` stands
    for all others.
    """

    topic_prefix: str = "tx."
    transaction_timeout_ms: int = 6_000
    transaction_check_interval_ms: int = 30_000
    transaction_check_max: int = 15
    file_reserved_ms: int = 72 * _HOUR_MS
    count_unanswered_checks: bool = False
    check_backoff_max_ms: int = 600_000
    reject_transaction_message: bool = False
    max_checks: int = 1_250
    max_output_bytes: int = 33_554_432
    max_ops: int = 20_000
    # Types that JSON gives back unchanged: a checkpoint's settings are compared with today's.
    group_topics: dict[str, list[str]] = field(default_factory=dict, hash=False)
