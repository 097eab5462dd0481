"""The pure step: one queue, one batch, in the order of the rules (docs/protocol.md).

No clock and no Spark inside: the same state and input decide the same, whenever it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..protocol import Outcome, Refused, StoredRecord, record_bytes
from .checks import check, overdue_segments
from .decisions import Decisions
from .ends import Ends
from .intake import ReadOp, read_halves, read_ops
from .judge import judge
from .pending import Pending
from .queue import SEGMENT, Queue
from .settings import StepSettings
from .settled import CODES, Offsets, Settled
from .store import Changes, Store

#: Where ops were left for their size, how many offsets are read next for each that was applied.
_MORE = 4


class Plan(NamedTuple):
    """What a batch was planned to read of a queue, in offsets; an end is behind the last one.

    `halves_known`: where the halves ended, to be read or not, asked after `ops_end` was known. An
    op is stored after its halves, so those of these ops are all below it.
    """

    halves_end: int
    halves_known: int
    ops_start: int
    ops_end: int


def ops_to_read(state: Mapping[str, bytes], queue: int, plan: Plan) -> tuple[int, int]:
    """Return the offsets of the ops to read, where a batch was planned to read these.

    Where ops were left it begins with them, and reads not many more than can be applied.
    """
    return _to_read(Queue.load(Store(state), queue), plan)


def step(
    state: Mapping[str, bytes],
    queue: int,
    plan: Plan,
    halves: Iterable[StoredRecord],
    ops: Iterable[StoredRecord],
    now_ms: int,
    settings: StepSettings,
) -> tuple[Changes, Decisions]:
    """Join a batch's halves and ops; return what changes in the state, and the decisions.

    `halves` are those of the plan and `ops` those of `ops_to_read`, in any order. Ops are left for
    the next batch, as if they had not been read, from the first on whose halves are not all read,
    or which would release more messages from the state than `max_output_bytes`.
    """
    store = Store(state)
    head = Queue.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    pending = Pending(store, head, settings.topic_prefix)
    ops_read = _to_read(head, plan)

    new, refused = read_halves(sorted(halves), plan.halves_end, head, settled, settings)
    given = sorted(ops)
    decoded = _Ops.of(read_ops(given, queue, settings))
    with_halves = decoded.before(_first_ahead(decoded.ends, plan))
    touched = {half.at.offset // SEGMENT for half in new}
    touched.update((with_halves.ends.half // SEGMENT).tolist())
    pending.load(touched.union(overdue_segments(head, _watermark(head, with_halves.read))), new)
    read, ends = with_halves.before(_first_too_much(with_halves.ends, pending, settings))

    head.watermark = _watermark(head, read)
    head.next_op = given[len(read)].offset if len(read) < len(given) else ops_read[1]
    # What waits for halves is cheap to read again; of what is too much, a little more than fits.
    again = ops_read[1] - ops_read[0] if len(with_halves.read) < len(decoded.read) else 1
    more = max(again, _MORE * (head.next_op - ops_read[0]))
    left = head.next_op < plan.ops_end
    head.behind = max(1, min(more, _most_to_read(given, settings))) if left else 0

    judged = judge(ends, pending, settled, head, settings)
    checks, discards = check(pending, settled, head, settings)

    pending.save()
    settled.save(head.now)
    settled.forget(head.now, settings.file_reserved_ms)
    head.save(store)
    return store.changes, Decisions(
        ended=judged.ended + discards,
        checks=checks,
        refused=refused + sorted(_refused(read) + judged.refused, key=_place),
        duplicates=judged.duplicates,
        wake_at_ms=_wake_at(pending, head),
        watermark_ms=head.watermark,
        pending=sum(entry.halves for entry in head.pending.values()),
    )


def settle(
    state: Mapping[str, bytes], queue: int, offsets: Offsets, outcomes: list[Outcome], now_ms: int
) -> Changes:
    """Take transactions as ended, before their halves are read: what a rebuild starts from."""
    store = Store(state)
    head = Queue.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    settled.settle(offsets, np.array([CODES[outcome] for outcome in outcomes], np.uint8))
    settled.save(head.now)
    head.save(store)
    return store.changes


class _Ops(NamedTuple):
    """Ops that were read, fences and malformed ones too, and the ends that they ask for."""

    read: list[ReadOp]
    ends: Ends

    @classmethod
    def of(cls, read: list[ReadOp]) -> _Ops:
        return cls(read, Ends.of([one.at for one in read if one.at]))

    def before(self, op: int | None) -> _Ops:
        """Return what stands before one of `ends.ops`; all for None."""
        if op is None:
            return self
        offset = self.ends.ops[op].offset
        kept = [one for one in self.read if one.offset < offset]
        return _Ops(kept, self.ends.take(self.ends.op < op))


def _to_read(head: Queue, plan: Plan) -> tuple[int, int]:
    if head.behind:
        return head.next_op, min(plan.ops_end, head.next_op + head.behind)
    return plan.ops_start, plan.ops_end


def _first_ahead(ends: Ends, plan: Plan) -> int | None:
    """Return the first op with a half that is there and not read yet.

    One that is not even there is made up: it is refused, and holds up nothing.
    """
    ahead = (ends.half >= plan.halves_end) & (ends.half < plan.halves_known)
    return int(ends.op[ahead].min()) if ahead.any() else None


def _first_too_much(ends: Ends, pending: Pending, settings: StepSettings) -> int | None:
    """Return the first op too much of what is released from the state: not the first of all."""
    sizes = pending.stored_bytes(pending.find(ends.half))
    of_op = np.bincount(ends.op, sizes, len(ends.ops)).astype(np.int64)
    total = np.cumsum(of_op)
    over = np.flatnonzero((total > settings.max_output_bytes) & (total > of_op))
    return int(over[0]) if len(over) else None


def _most_to_read(given: list[StoredRecord], settings: StepSettings) -> int:
    """Return how many ops the next batch may read, were they as large as these."""
    size = sum(record_bytes(op.key, op.value, op.headers or []) for op in given)
    return min(settings.max_ops, settings.max_output_bytes * max(1, len(given)) // max(1, size))


def _watermark(head: Queue, read: list[ReadOp]) -> int | None:
    """Return the queue's watermark with these ops, fences and malformed ones too."""
    times = [one.stored_at_ms for one in read]
    return max(times if head.watermark is None else [head.watermark, *times], default=None)


def _refused(read: list[ReadOp]) -> list[Refused]:
    return [refused for one in read for refused in one.refused]


def _place(refused: Refused) -> tuple[int, int]:
    """Return where an op's refused element stands in its queue."""
    element = -1 if refused.element is None else refused.element
    return int(refused.source.rpartition(":")[2]), element


def _wake_at(pending: Pending, head: Queue) -> int | None:
    """Return when something falls due that only the clock moves on; 0 if something is left."""
    deadline = pending.least_deadline()
    is_due = deadline is not None and head.watermark is not None and deadline < head.watermark
    return 0 if head.behind or is_due else deadline
