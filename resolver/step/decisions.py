"""What a step decides."""

from __future__ import annotations

from typing import NamedTuple

from ..protocol import DiscardReason, HalfAt, Outcome, Refused, Source


class Ended(NamedTuple):
    """A transaction's end; `reason` where it is a discard, `op_offset` and `ended_at_ms` else."""

    at: HalfAt
    outcome: Outcome
    source: Source
    op_offset: int | None
    ended_at_ms: int | None
    checks: int
    answered: int
    decided_at_ms: int
    reason: DiscardReason | None = None


class CheckSent(NamedTuple):
    """A check request; `checks` counts those sent for this half, this one included."""

    at: HalfAt
    checks: int


class Decisions(NamedTuple):
    """The decisions of one queue in one batch, and how the queue stands after it.

    `ended` has commits and rollbacks in the order of their ops, then discards. `wake_at_ms` is when
    a fence is needed if nothing else arrives: 0 for at once, None if nothing waits for a time.
    """

    ended: list[Ended]
    checks: list[CheckSent]
    refused: list[Refused]
    duplicates: int
    wake_at_ms: int | None
    watermark_ms: int | None
    pending: int
