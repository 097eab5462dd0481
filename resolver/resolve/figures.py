"""A queue's figures after a batch: they leave the worker beside its decisions."""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from ..protocol import StoredRecord
from ..protocol.names import FAST
from .step import CheckCounts, CheckEvent, Plan, QueueDecisions


class QueueFigures(NamedTuple):
    """The state of one queue after a batch, and the events of its checks in the batch.

    - `half_offset`, `op_offset`: the first half and op that the next batch reads.
    - `ops_left`: offsets from there to the end of the ops, as this batch knew it.
    - `now_ms`: the batch's clock. `watermark_ms`: None before the first op.
    - `due_ms`: the next check or discard. None if nothing waits for a time, 0 for at once.
    - `has_fast`: whether the batch has read a half that its producer may commit fast.
    """

    queue: int
    half_offset: int
    op_offset: int
    ops_left: int
    pending: int
    duplicates: int
    now_ms: int
    watermark_ms: int | None
    due_ms: int | None
    has_fast: bool
    check_counts: CheckCounts

    @classmethod
    def of(
        cls,
        queue: int,
        plan: Plan,
        now_ms: int,
        halves: list[StoredRecord],
        decisions: QueueDecisions,
    ) -> QueueFigures:
        """Return the figures of a queue by what was read and what its step decided."""
        return cls(
            queue,
            plan.halves_end,
            decisions.next_op,
            max(0, plan.ops_end - decisions.next_op),
            decisions.pending,
            decisions.duplicates,
            now_ms,
            decisions.watermark_ms,
            decisions.wake_at_ms,
            _has_fast(halves),
            decisions.check_counts,
        )

    def pack(self) -> bytes:
        """Return the figures as bytes."""
        counts = [(group, event.value, n) for (group, event), n in self.check_counts.items()]
        packed: bytes = msgpack.packb((*self[:-1], counts))
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> QueueFigures:
        """Undo `pack`."""
        *figures, counts = msgpack.unpackb(packed)
        events = {(group, CheckEvent(event)): count for group, event, count in counts}
        return cls._make((*figures, CheckCounts(events)))


def _has_fast(halves: list[StoredRecord]) -> bool:
    """Whether there is a half that its producer may commit fast, even if it is malformed."""
    return any(name == FAST for half in halves for name, _ in half.headers or ())
