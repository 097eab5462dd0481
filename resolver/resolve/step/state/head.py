"""A queue's head: the facts about the whole queue, and where the rest of its state is.

`left_ops.py` notes in it which ops are left; `ops_to_read` begins the next batch with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack

from .store import Store

#: Half offsets per segment: pending halves and outcomes are kept segment by segment.
SEGMENT = 4096

_KEY = "queue"


class Plan(NamedTuple):
    """The offsets that a batch was planned to read of a queue; an end is one above the last."""

    halves_end: int
    ops_start: int
    ops_end: int


class PendingRange(NamedTuple):
    """The number of pending halves in a segment, and the least of their deadlines."""

    halves: int
    least_deadline: int


@dataclass
class Head:
    """One queue's head: rewritten by each step, so kept small.

    All halves below `next_half` have been read. If ops were left for the next batch, `next_op` is
    the first of them and `behind` the number to read then. Otherwise `behind` is 0.

    All halves of the ops before `proved` have been read: a fence of the half partition says so.
    """

    number: int
    next_half: int = 0
    watermark: int | None = None
    now: int = 0
    settled_from: int | None = None
    next_op: int = 0
    behind: int = 0
    proved: int = 0
    pending: dict[int, PendingRange] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, number: int) -> Head:
        """Read the head, or make the head of a queue never seen."""
        packed = store.get(_KEY)
        if packed is None:
            return cls(number)
        *head, pending = msgpack.unpackb(packed, strict_map_key=False)
        found = cls(number, *head)
        found.pending = {segment: PendingRange(*entry) for segment, entry in pending.items()}
        return found

    def ops_range(self, plan: Plan) -> tuple[int, int]:
        """Return the start and end offset of the ops to read in a batch with this plan."""
        if self.behind:
            return self.next_op, min(plan.ops_end, self.next_op + self.behind)
        return plan.ops_start, plan.ops_end

    def save(self, store: Store) -> None:
        """Write the head."""
        head = (self.next_half, self.watermark, self.now, self.settled_from)
        ops = (self.next_op, self.behind, self.proved)
        store.put(_KEY, msgpack.packb((*head, *ops, self.pending)))


def ops_to_read(state: Mapping[str, bytes], queue: int, plan: Plan) -> tuple[int, int]:
    """Return the start and end offset of the ops to read in a batch with this plan.

    If ops were left, the batch begins with them, and reads not many more than can be applied.
    """
    return Head.load(Store(state), queue).ops_range(plan)
