"""A queue's head: the facts about the whole queue, and where the rest of its state is.

`left_ops.py` notes in it which ops are left; `plan.py` begins the next batch with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack

from .store import Store

#: Half offsets per segment: pending halves and outcomes are kept segment by segment.
SEGMENT = 4096

_KEY = "queue"


class PendingSegment(NamedTuple):
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
    pending: dict[int, PendingSegment] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, number: int) -> Head:
        """Read the head; a new queue has an empty one."""
        packed = store.get(_KEY)
        if packed is None:
            return cls(number)
        *fields, pending = msgpack.unpackb(packed, strict_map_key=False)
        head = cls(number, *fields)
        head.pending = {segment: PendingSegment(*entry) for segment, entry in pending.items()}
        return head

    def save(self, store: Store) -> None:
        """Write the head."""
        head = (self.next_half, self.watermark, self.now, self.settled_from)
        ops = (self.next_op, self.behind, self.proved)
        store.put(_KEY, msgpack.packb((*head, *ops, self.pending)))
