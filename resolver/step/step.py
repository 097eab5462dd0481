"""The pure step: one queue, one batch, in the order of the rules (docs/protocol.md).

No clock and no Spark inside: the same state and input decide the same, whenever it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..protocol import Outcome, Refused, StoredRecord
from .checks import check, overdue_segments
from .decisions import Decisions
from .ends import Ends, OpAt
from .intake import ReadOp, read_halves, read_ops
from .judge import judge
from .pending import Pending
from .queue import SEGMENT, Queue
from .settings import StepSettings
from .settled import CODES, Offsets, Settled
from .store import Changes, Store
from .waiting import Waiting

#: Where ops were left, how many offsets are read next for each that was applied.
_MORE = 4


def ops_to_read(state: Mapping[str, bytes], queue: int, start: int, end: int) -> tuple[int, int]:
    """Return the offsets of the ops to read, where a batch was planned to read these.

    Where ops were left it begins with them, and reads not many more than can be applied.
    """
    head = Queue.load(Store(state), queue)
    return (head.next_op, min(end, head.next_op + head.behind)) if head.behind else (start, end)


def step(
    state: Mapping[str, bytes],
    queue: int,
    halves: Iterable[StoredRecord],
    ops: Iterable[StoredRecord],
    now_ms: int,
    settings: StepSettings,
    ops_read: tuple[int, int],
    ops_end: int,
) -> tuple[Changes, Decisions]:
    """Join a batch's halves and ops; return what changes in the state, and the decisions.

    `halves` and `ops` are the queue's records, in any order. `ops_read` is `ops_to_read`, and
    `ops_end` where the planned ones end. Ops that would release more messages from the state than
    `max_output_bytes` are left for the next batch, as if they had not been read.
    """
    store = Store(state)
    head = Queue.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    waiting = Waiting(store, head, settings)
    pending = Pending(store, head, settings.topic_prefix)

    new, refused = read_halves(sorted(halves), head, settled, settings)
    given = sorted(ops)
    read = read_ops(given, queue, settings)
    waited = waiting.take_due()
    ends = Ends.of(waited + [one.at for one in read if one.at])
    touched = {half.at.offset // SEGMENT for half in new} | set((ends.half // SEGMENT).tolist())
    pending.load(touched.union(overdue_segments(head, _watermark(head, read))), new)

    count = _affordable(ends, len(waited), pending, settings.max_output_bytes)
    read = read[: _before(read, ends.ops[count:])]
    ends = ends.take(ends.op < count)
    head.watermark = _watermark(head, read)
    head.next_op = given[len(read)].offset if len(read) < len(given) else ops_read[1]
    head.behind = _MORE * (head.next_op - ops_read[0]) + 1 if head.next_op < ops_end else 0

    early = ends.half >= head.next_half
    judged = judge(ends.take(~early), pending, settled, head, settings)
    given_up = waiting.put(ends.take(early))
    checks, discards = check(pending, settled, head, settings)

    pending.save()
    settled.save(head.now)
    settled.forget(head.now, settings.file_reserved_ms)
    head.save(store)
    return store.changes, Decisions(
        ended=judged.ended + discards,
        checks=checks,
        refused=refused + sorted(_refused(read) + judged.refused, key=_place) + given_up,
        duplicates=judged.duplicates,
        wake_at_ms=_wake_at(pending, waiting, head),
        watermark_ms=head.watermark,
        pending=sum(entry.halves for entry in head.pending.values()),
        waiting=waiting.count,
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


def _watermark(head: Queue, read: list[ReadOp]) -> int | None:
    """Return the queue's watermark with these ops, fences and malformed ones too."""
    times = [one.stored_at_ms for one in read]
    return max(times if head.watermark is None else [head.watermark, *times], default=None)


def _affordable(ends: Ends, waited: int, pending: Pending, limit: int) -> int:
    """Return how many of the ops to apply: what they release from the state is limited.

    The ones that waited are for halves that this batch has read; of the others at least one.
    """
    sizes = pending.stored_bytes(pending.find(ends.half))
    of_op = np.bincount(ends.op, sizes, len(ends.ops)).astype(np.int64)[waited:]
    total = np.cumsum(of_op)
    over = np.flatnonzero((total > limit) & (total > of_op))
    return waited + (int(over[0]) if len(over) else len(of_op))


def _before(read: list[ReadOp], left: list[OpAt]) -> int:
    """Return how many stand before the first that is left."""
    return sum(one.offset < left[0].offset for one in read) if left else len(read)


def _refused(read: list[ReadOp]) -> list[Refused]:
    return [refused for one in read for refused in one.refused]


def _place(refused: Refused) -> tuple[int, int]:
    """Return where an op's refused element stands in its queue."""
    element = -1 if refused.element is None else refused.element
    return int(refused.source.rpartition(":")[2]), element


def _wake_at(pending: Pending, waiting: Waiting, head: Queue) -> int | None:
    """Return when something falls due that only the clock moves on; now if something is left."""
    if head.behind:
        return head.now
    deadline = pending.least_deadline()
    if deadline is not None and head.watermark is not None and deadline < head.watermark:
        deadline = head.now
    times = [time for time in (deadline, waiting.first_expiry()) if time is not None]
    return min(times, default=None)
