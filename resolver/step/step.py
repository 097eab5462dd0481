"""The pure step: one queue, one batch, in the order of the rules (docs/protocol.md).

No clock and no Spark inside: the same state and input decide the same, whenever it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..protocol import Outcome, Refused, StoredRecord
from .checks import check, overdue_segments
from .decisions import Decisions
from .ends import Ends
from .intake import read_halves, read_ops
from .judge import judge
from .pending import Pending
from .queue import SEGMENT, Queue
from .settings import StepSettings
from .settled import CODES, Offsets, Settled
from .store import Changes, Store
from .waiting import Waiting


def step(
    state: Mapping[str, bytes],
    queue: int,
    halves: Iterable[StoredRecord],
    ops: Iterable[StoredRecord],
    now_ms: int,
    settings: StepSettings,
) -> tuple[Changes, Decisions]:
    """Join a batch's halves and ops; return what changes in the state, and the decisions.

    `halves` and `ops` are the queue's records, in any order.
    """
    store = Store(state)
    head = Queue.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    waiting = Waiting(store, head, settings)
    pending = Pending(store, head, settings.topic_prefix)

    new, refused = read_halves(sorted(halves), head, settled, settings)
    new_ops, refused_ops = read_ops(sorted(ops), head, settings)
    ends = Ends.of(waiting.take_due() + new_ops)
    early = ends.half >= head.next_half
    ready = ends.take(~early)
    touched = {half.at.offset // SEGMENT for half in new} | set((ready.half // SEGMENT).tolist())
    pending.load(touched.union(overdue_segments(head)), new)

    judged = judge(ready, pending, settled, head, settings)
    given_up = waiting.put(ends.take(early))
    checks, discards = check(pending, settled, head, settings)

    pending.save()
    settled.save(head.now)
    settled.forget(head.now, settings.file_reserved_ms)
    head.save(store)
    return store.changes, Decisions(
        ended=judged.ended + discards,
        checks=checks,
        refused=refused + sorted(refused_ops + judged.refused, key=_place) + given_up,
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


def _place(refused: Refused) -> tuple[int, int]:
    """Return where an op's refused element stands in its queue."""
    element = -1 if refused.element is None else refused.element
    return int(refused.source.rpartition(":")[2]), element


def _wake_at(pending: Pending, waiting: Waiting, head: Queue) -> int | None:
    """Return when something falls due that only the clock moves on; now if something is left."""
    deadline = pending.least_deadline()
    if deadline is not None and head.watermark is not None and deadline < head.watermark:
        deadline = head.now
    times = [time for time in (deadline, waiting.first_expiry()) if time is not None]
    return min(times, default=None)
