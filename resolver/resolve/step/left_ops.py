"""Which ops a batch applies, and which it leaves for the next batch (docs/protocol.md, rule 2).

The first op of any of these kinds, and all ops after it, are left:

- it names a half that was not read, and no fence proves that there is no such half:
  `first_op_before_its_half`;
- with the ops before it, it would release more than `max_output_bytes` of messages from the state:
  `first_op_over_limit`;
- the ops before it have as many elements as one batch could refuse: `decode_ops` stops there.

An op that is left counts as not read yet.
"""

from __future__ import annotations

import numpy as np

from ...protocol import StoredRecord, record_bytes
from .op_elements import OpElements
from .pending import Pending
from .plan import Plan, ops_range
from .settings import StepSettings
from .state.head import Head

#: Op offsets that the next batch reads for each applied offset, if a limit has left ops.
_MORE = 4


def first_op_before_its_half(elements: OpElements, plan: Plan, head: Head) -> int | None:
    """Return the first op that names a half not read yet, unless a fence has proved the op.

    Then the half does not exist: its element is refused, and holds up nothing.
    """
    op_offset = elements.each(lambda stored_op: stored_op.offset, np.int64)
    ahead = (elements.half_offset >= plan.halves_end) & (op_offset >= head.proved)
    return int(elements.op_index[ahead].min()) if ahead.any() else None


def first_op_over_limit(
    elements: OpElements, pending: Pending, settings: StepSettings
) -> int | None:
    """Return the first op whose messages, with those of the ops before, exceed `max_output_bytes`.

    Only messages stored by earlier batches count, and the first op with such messages always fits.
    A delivered op needs nothing of the state: its messages are in their topics.
    """
    sizes = pending.stored_bytes(pending.find(elements.half_offset))
    sizes[elements.each(lambda stored_op: stored_op.op.delivered, np.bool_)] = 0
    of_op = np.bincount(elements.op_index, sizes, len(elements.ops)).astype(np.int64)
    total = np.cumsum(of_op)
    over = np.flatnonzero((total > settings.max_output_bytes) & (total > of_op))
    return int(over[0]) if len(over) else None


def note_left(
    head: Head,
    plan: Plan,
    op_records: list[StoredRecord],
    applied: int,
    waits: bool,
    settings: StepSettings,
) -> None:
    """Note the first op that is left, and how many op offsets the next batch reads from there.

    `applied` is the number of applied records in `op_records`, which this batch has read. `waits`
    says that ops wait for halves.
    """
    start, end = ops_range(head, plan)
    head.next_op = op_records[applied].offset if applied < len(op_records) else end
    # If ops wait for halves, the next batch reads all of them again, as far as its limits allow:
    # that is cheap. Otherwise a limit has left ops: the next batch reads at most `_MORE` offsets
    # for each applied one.
    again = end - start if waits else 1
    more = max(again, _MORE * (head.next_op - start))
    leaves_ops = head.next_op < plan.ops_end
    head.behind = max(1, min(more, _most_to_read(op_records, settings))) if leaves_ops else 0


def _most_to_read(op_records: list[StoredRecord], settings: StepSettings) -> int:
    """Return how many ops the next batch may read, if they are as large as these."""
    size = sum(record_bytes(op.key, op.value, op.headers or []) for op in op_records)
    fitting = settings.max_output_bytes * max(1, len(op_records)) // max(1, size)
    return min(settings.max_ops, fitting)
