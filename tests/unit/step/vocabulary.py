"""What the model reads, by which rules, and what it decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from resolver.protocol import (
    DiscardReason,
    Half,
    Headers,
    Outcome,
    QuarantineReason,
    Source,
    StoredHalf,
    TransactionStatus,
)

#: The queue of all examples and histories, and the secret of its fences.
QUEUE, FENCE_SECRET = 3, "secret"
#: Outcomes are forgotten by ranges of this many half offsets.
RANGE = 4096


@dataclass(frozen=True)
class Rules:
    """The settings that the rules depend on, under the names that the step gives them."""

    topic_prefix: str = "tx."
    transaction_timeout_ms: int = 6000
    transaction_check_interval_ms: int = 30_000
    transaction_check_max: int = 15
    file_reserved_ms: int = 72 * 3_600_000
    count_unanswered_checks: bool = False
    check_backoff_max_ms: int = 600_000
    reject_transaction_message: bool = False
    max_checks: int = 1250
    max_output_bytes: int = 33_554_432
    max_ops: int = 20_000
    group_topics: dict[str, list[str]] = field(default_factory=dict)


class Plan(NamedTuple):
    """What a batch reads: halves up to an end, and ops."""

    halves_end: int
    ops_start: int
    ops_end: int


class HalfRead(NamedTuple):
    """A record of the half topic and what it means: a half, a fence, or (None) nothing legal.

    `fence_ops` is the op offset that a fence names, 0 for a forged fence.
    """

    offset: int
    stored_at_ms: int
    half: Half | None
    headers: Headers
    fence_ops: int | None = None


class Ends(NamedTuple):
    """What a well-formed op says. An element is (half offset, transaction id), malformed: None."""

    state: TransactionStatus
    group: str
    elements: tuple[tuple[int, str] | None, ...]
    from_check: bool = False
    actor: str | None = None
    delivered: bool = False
    fast: bool = True


class Revoked(NamedTuple):
    """A record that says that a fast id is revoked; None if anybody else wrote it."""

    fast_id: str | None


class OpRead(NamedTuple):
    """A record of the op topic: an op, a fence, a revocation, or (None) nothing legal."""

    offset: int
    stored_at_ms: int
    says: Ends | Revoked | str | None
    size: int


FENCE = "fence"


class Element(NamedTuple):
    """One element of an op, with all that it needs to be judged alone."""

    op_offset: int
    position: int
    stored_at_ms: int
    half_offset: int
    transaction_id: str
    says: Ends


class End(NamedTuple):
    """A transaction ended; the fields of the step's `Ended`, in their order, without `error`."""

    stored_half: StoredHalf
    outcome: Outcome
    source: Source
    op_offset: int | None
    ended_at_ms: int | None
    checks: int
    answered: int
    decided_at_ms: int
    reason: DiscardReason | None
    is_fast: bool = False


class Asked(NamedTuple):
    """A check was sent; the fields of the step's `CheckSent`."""

    stored_half: StoredHalf
    checks: int


@dataclass
class Verdict:
    """What one batch decided."""

    ended: list[End] = field(default_factory=list)
    checks: list[Asked] = field(default_factory=list)
    refused: list[tuple[str, int | None, QuarantineReason]] = field(default_factory=list)
    duplicates: int = 0
    check_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wake_at_ms: int | None = None
    fence_ops: int | None = None
    watermark_ms: int | None = None
    pending: int = 0
    next_op: int = 0
    revoke: list[str] = field(default_factory=list)
