"""Which offsets a batch reads of a queue: those of its plan, or first the ops that were left.

`left_ops.py` notes in the queue's head which ops a batch leaves for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .state.head import Head
from .state.store import Store


class Plan(NamedTuple):
    """Planned offsets of a queue's batch, without the start of its halves.

    An end is one above the last offset.
    """

    halves_end: int
    ops_start: int
    ops_end: int


def ops_to_read(state: Mapping[str, bytes], queue: int, plan: Plan) -> tuple[int, int]:
    """Return the start and end offset of the ops to read in a batch with this plan.

    If ops were left, the batch begins with them, and reads not many more than can be applied.
    """
    return ops_range(Head.load(Store(state), queue), plan)


def ops_range(head: Head, plan: Plan) -> tuple[int, int]:
    """Return the start and end offset of the ops to read; `head` is the queue's."""
    if head.behind:
        return head.next_op, min(plan.ops_end, head.next_op + head.behind)
    return plan.ops_start, plan.ops_end
