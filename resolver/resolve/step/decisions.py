"""The decisions of a step."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import NamedTuple

from ...protocol import DiscardReason, Outcome, Refused, Source, StoredHalf


class Ended(NamedTuple):
    """A transaction's end.

    A discard has a `reason`. Any other end has `op_offset` and `ended_at_ms`. An undeliverable
    message has all of these, and its `error`. The message of a commit that `is_fast` was delivered
    by its producer.
    """

    stored_half: StoredHalf
    outcome: Outcome
    source: Source
    op_offset: int | None
    ended_at_ms: int | None
    checks: int
    answered: int
    decided_at_ms: int
    reason: DiscardReason | None = None
    error: str | None = None
    is_fast: bool = False

    def undeliverable(self, error: str) -> Ended:
        """Return the end of a commit that the policy refuses."""
        return self._replace(
            outcome=Outcome.UNDELIVERABLE,
            source=Source.DELIVERY,
            reason=DiscardReason.UNDELIVERABLE,
            error=error,
        )


class CheckSent(NamedTuple):
    """A check; `checks` counts the checks sent for this half, this check included."""

    stored_half: StoredHalf
    checks: int


class CheckEvent(str, Enum):
    """An event of a group's checks. An answer is named by its state."""

    SENT = "sent"
    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOWN"
    UNANSWERED = "unanswered"
    DISCARDED = "discarded"


#: How often each event of checks happened, by group.
CheckCounts = Counter[tuple[str, CheckEvent]]


class QueueDecisions(NamedTuple):
    """The decisions of one queue in one batch, and the queue's figures after it.

    `ended` has all ends by ops, in the order of the ops, then discards. `wake_at_ms` is when
    the queue needs a fence if nothing else arrives: 0 for at once, None if nothing waits for a
    time. If ops wait for halves, `fence_ops` is the op offset for a fence in the half partition.
    `check_counts` counts a check as unanswered when the next one is sent, or the half is given up.
    `next_op` is the first op that the next batch reads. `revoke` has the fast ids that this queue
    wants revoked, the oldest wish first.
    """

    ended: list[Ended]
    checks: list[CheckSent]
    refused: list[Refused]
    duplicates: int
    check_counts: CheckCounts
    wake_at_ms: int | None
    fence_ops: int | None
    watermark_ms: int | None
    pending: int
    next_op: int
    revoke: tuple[str, ...] = ()
