"""The pure step: one queue, one batch, in the order of the rules (docs/protocol.md).

It has no clock and no Spark inside: the same state and input give the same decisions at any time.

In the order of a batch: `intake.py` decodes the records, `pending.py` has the halves, `judge.py`
judges the ends, `settled.py` keeps the outcomes, `checks.py` asks and gives up. Only fast halves
need these: `fast_ids.py` knows which ids are revoked; `waiting.py` has the ends that wait for that,
and `holding.py` the checks. Next station:
`resolver/resolve/delivery/packed.py` makes records of the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ...protocol import Outcome, Refused, StoredRecord, record_bytes
from .checks import check, overdue_segments
from .decisions import QueueDecisions
from .fast_ids import NEVER, FastIds
from .holding import note_wishes
from .intake import ReadOp, read_halves, read_ops
from .judge import judge
from .op_elements import Ends
from .pending import Pending
from .queue import SEGMENT, Queue
from .returned import Returned
from .settings import StepSettings
from .settled import CODES, FAST, Offsets, Settled
from .store import Changes, Store

#: Op offsets that the next batch reads for each applied offset, if ops were left for their size.
_MORE = 4


class Plan(NamedTuple):
    """The offsets that a batch was planned to read of a queue; an end is one above the last."""

    halves_end: int
    ops_start: int
    ops_end: int


def ops_to_read(state: Mapping[str, bytes], queue: int, plan: Plan) -> tuple[int, int]:
    """Return the start and end offset of the ops to read in a batch with this plan.

    If ops were left, the batch begins with them, and reads not many more than can be applied.
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
    fence_secret: str,
    is_rebuild: bool = False,
) -> tuple[Changes, QueueDecisions]:
    """Join a batch's halves and ops; return the changes of the state, and the decisions.

    `halves` are those of the plan and `ops` those of `ops_to_read`, in any order. Ops may be left
    for the next batch, as if they had not been read. Fences of the half partition and revocations
    count if they were made with `fence_secret`. `is_rebuild` counts in a queue's first batch: ops
    about its fast halves may be lost. The ops that are left begin with the first op of two kinds:

    - a half that it names has not been read, and no fence proves that there is none;
    - it would release more messages from the state than `max_output_bytes`.
    """
    store = Store(state)
    head = Queue.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    pending = Pending(store, head, settings.topic_prefix)
    ops_read = _to_read(head, plan)

    stored = sorted(halves)
    new, refused = read_halves(stored, plan.halves_end, head, settled, settings, fence_secret)
    given = sorted(ops)
    fast_ids = FastIds(store)
    first_op_ms = given[0].stored_at_ms if given else None
    fast_ids.note_lost(head, plan.ops_start, first_op_ms, is_rebuild)
    decoded = _Ops.of(read_ops(given, queue, settings, fence_secret))
    with_halves = decoded.before(_first_ahead(decoded.ends, plan, head))
    touched = {half.at.offset // SEGMENT for half in new}
    touched.update((with_halves.ends.half // SEGMENT).tolist())
    touched.update(overdue_segments(head, _watermark(head, with_halves.read)))
    returned = Returned(store)
    touched.update(returned.take(head), fast_ids.take(head, _revoked(with_halves.read)))
    pending.load(touched, new)
    read, ends = with_halves.before(_first_too_much(with_halves.ends, pending, settings))

    head.watermark = _watermark(head, read)
    head.next_op = given[len(read)].offset if len(read) < len(given) else ops_read[1]
    # Ops that wait for halves are cheap to read again. If ops are too large, read a little more
    # than fits.
    waits = len(with_halves.read) < len(decoded.read)
    again = ops_read[1] - ops_read[0] if waits else 1
    more = max(again, _MORE * (head.next_op - ops_read[0]))
    left = head.next_op < plan.ops_end
    head.behind = max(1, min(more, _most_to_read(given, settings))) if left else 0

    fast_ids.revoke(_revoked(read), head.now)
    judged = judge(ends, pending, settled, fast_ids, head, settings)
    checked = check(pending, settled, fast_ids, head, settings, returned.groups)
    note_wishes(pending, fast_ids, touched)

    pending.save()
    fast_ids.forget(head.now, settings.file_reserved_ms)
    fast_ids.save()
    returned.add(_announced(read) + judged.returned, head, checked.left)
    returned.save()
    settled.save(head.now)
    settled.forget(head.now, settings.file_reserved_ms)
    head.save(store)
    return store.changes, QueueDecisions(
        ended=judged.ended + checked.discards,
        checks=checked.checks,
        refused=refused + sorted(_refused(read) + judged.refused, key=_place),
        duplicates=judged.duplicates,
        check_counts=judged.answers + checked.counts,
        wake_at_ms=0 if returned.segments or fast_ids.has_freed else _wake_at(pending, head),
        fence_ops=plan.ops_end if waits else None,
        watermark_ms=head.watermark,
        pending=sum(entry.halves for entry in head.pending.values()),
        next_op=head.next_op,
        revoke=fast_ids.to_revoke(),
    )


def settle(
    state: Mapping[str, bytes],
    queue: int,
    offsets: Offsets,
    outcomes: list[Outcome],
    fast: list[bool],
    now_ms: int,
) -> Changes:
    """Take transactions as ended, before their halves are read: the start of a rebuild.

    `fast` says which of them their producers have delivered.
    """
    store = Store(state)
    head = Queue.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    codes = np.array([CODES[outcome] for outcome in outcomes], np.uint8)
    settled.settle(offsets, codes | np.array(fast, np.uint8) * np.uint8(FAST))
    settled.save(head.now)
    head.save(store)
    return store.changes


class _Ops(NamedTuple):
    """Ops that were read, fences and malformed ops too, and the ends that they ask for."""

    read: list[ReadOp]
    ends: Ends

    @classmethod
    def of(cls, read: list[ReadOp]) -> _Ops:
        return cls(read, Ends.of([one.at for one in read if one.at]))

    def before(self, op: int | None) -> _Ops:
        """Return the ops before number `op` of `ends.ops`; all of them for None."""
        if op is None:
            return self
        offset = self.ends.ops[op].offset
        kept = [one for one in self.read if one.offset < offset]
        return _Ops(kept, self.ends.take(self.ends.op < op))


def _to_read(head: Queue, plan: Plan) -> tuple[int, int]:
    if head.behind:
        return head.next_op, min(plan.ops_end, head.next_op + head.behind)
    return plan.ops_start, plan.ops_end


def _first_ahead(ends: Ends, plan: Plan, head: Queue) -> int | None:
    """Return the first op that names a half behind the halves read, and that no fence has proved.

    Where a fence has, the half does not exist: its element is refused, and holds up nothing.
    """
    op_offset = ends.each(lambda at: at.offset, np.int64)
    ahead = (ends.half >= plan.halves_end) & (op_offset >= head.proved)
    return int(ends.op[ahead].min()) if ahead.any() else None


def _first_too_much(ends: Ends, pending: Pending, settings: StepSettings) -> int | None:
    """Return the first op above the state's output limit; never the first that needs the state.

    A delivered op needs nothing of it: its messages are in their topics.
    """
    sizes = pending.stored_bytes(pending.find(ends.half))
    sizes[ends.each(lambda at: at.op.delivered, np.bool_)] = 0
    of_op = np.bincount(ends.op, sizes, len(ends.ops)).astype(np.int64)
    total = np.cumsum(of_op)
    over = np.flatnonzero((total > settings.max_output_bytes) & (total > of_op))
    return int(over[0]) if len(over) else None


def _most_to_read(given: list[StoredRecord], settings: StepSettings) -> int:
    """Return how many ops the next batch may read, if they are as large as these."""
    size = sum(record_bytes(op.key, op.value, op.headers or []) for op in given)
    return min(settings.max_ops, settings.max_output_bytes * max(1, len(given)) // max(1, size))


def _watermark(head: Queue, read: list[ReadOp]) -> int | None:
    """Return the queue's watermark after these ops, fences and malformed ops too."""
    times = [one.stored_at_ms for one in read]
    return max(times if head.watermark is None else [head.watermark, *times], default=None)


def _revoked(read: list[ReadOp]) -> dict[str, int]:
    """Return the ids that are revoked, each with the first op offset that says so."""
    return {one.revoked: one.offset for one in reversed(read) if one.revoked}


def _announced(read: list[ReadOp]) -> list[str]:
    """Return the groups of which an agent says that it is there."""
    return [one.at.op.group for one in read if one.at and one.at.op.announces]


def _refused(read: list[ReadOp]) -> list[Refused]:
    return [refused for one in read for refused in one.refused]


def _place(refused: Refused) -> tuple[int, int]:
    """Return the place of a refused op or element in its queue: op offset and position."""
    element = -1 if refused.element is None else refused.element
    return int(refused.source.rpartition(":")[2]), element


def _wake_at(pending: Pending, head: Queue) -> int | None:
    """Return the next deadline, in ms; 0 (at once) if ops are left or a half is overdue."""
    deadline = pending.least_deadline()
    deadline = None if deadline == NEVER else deadline
    is_due = deadline is not None and head.watermark is not None and deadline < head.watermark
    return 0 if head.behind or is_due else deadline
