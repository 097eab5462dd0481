"""Spark calls this stateful processor for each queue: it reads, decides, and keeps the state.

Each queue has a grouping key of its own, its slot, and a state: one map of bytes. Next stations:
`reader.py` reads the queue's records, `step/step.py` decides, and `delivery/packed.py` packs the
decisions for `delivery/delivery.py`. `QueueState` reads and writes Spark's map, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ..protocol import FAST_DELIVERY, Names, Outcome, StoredRecord
from ..settings import Settings
from ..spark.failure import sent_whole
from .delivery.packed import BatchName, pack
from .figures import QueueFigures
from .garbage import collection_put_off
from .planned_settings import PlannedSettings
from .queue_state import QueueState
from .reader import Range, RangeReader
from .source import RANGES
from .step import Plan, QueueDecisions, ops_to_read, settle_outcomes, step

#: A batch's rows for delivery. Each queue with input has at least one row, a part of its decisions.
#: `wake_at_ms` is when to wake the queue, in ms by the driver's clock; -1 is never. `fence_ops` is
#: the op offset for a fence in the half partition; -1 is no fence. The first part has the fast ids
#: that the queue wants revoked, and the queue's figures.
DECISIONS = (
    "queue int, part int, decisions binary, wake_at_ms long, fence_ops long, "
    "revoke array<string>, figures binary"
)
#: Most bytes of a quarantined record: 1 MiB, and room for the marks.
_QUARANTINE_BYTES = 1_048_576 + 32_768
#: The columns of a queue's input row, except its slot.
_INPUT_COLUMNS = [*(field.split()[0] for field in RANGES.split(", ")), "now_ms"]
_reader: RangeReader | None = None
#: Spark's client for the state of the worker's last task: see `QueueProcessor.close`.
_state_client: Any = None


class QueueProcessor(StatefulProcessor):
    """Reads a queue's records of the batch and runs the step over them.

    `slots` has the grouping key of each queue. `query.py` adds it to each row, and `now_ms`, the
    batch's time.
    """

    def __init__(
        self,
        settings: Settings,
        planned: PlannedSettings,
        slots: list[int],
        fence_secret: str,
        is_rebuild: bool,
    ) -> None:
        self._settings = settings
        self._is_rebuild = is_rebuild
        self._fence_secret = fence_secret
        self._planned = planned
        self._slots = slots

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the queue's state."""
        global _state_client
        _state_client = cast(Any, handle)._statefulProcessorApiClient
        self._state = QueueState.open(handle)

    def close(self) -> None:
        """Leave the connection to the state open: Spark closes it at the end of the task.

        Spark 4.2.0 closes its end only by interrupting a thread that still listens. The thread
        stops listening when Spark is told that the processor is closed, or when our end is closed.
        Then each task leaves a socket open, until no port is left (SPARK-58932, mended in Spark
        4.2.1).
        """
        _state_client.set_handle_state = lambda _state: None

    def handleInitialState(
        self,
        key: Any,
        initialState: Any,
        timerValues: Any,
    ) -> None:
        """Take outcomes as settled, in the first batch of a rebuild."""
        outcomes = [Outcome(outcome) for outcome in initialState["outcome"]]
        fast = [delivery == FAST_DELIVERY for delivery in initialState["delivery"]]
        offsets = np.array(initialState["offset"], np.int64)
        now = initialState["now_ms"]
        queue = self._slots.index(key[0])
        self._state.apply(settle_outcomes(self._state, queue, offsets, outcomes, fast, now))

    def handleInputRows(
        self,
        key: Any,
        rows: Any,
        timerValues: Any,
    ) -> Iterator[Row]:
        """Run the step on a queue's records of the batch."""
        (row,) = rows  # one row for each queue
        # The plan is the last three columns of `RANGES`.
        queue, halves_start, *plan, now = (row[column] for column in _INPUT_COLUMNS)
        yield from self._resolve(queue, halves_start, Plan(*plan), now)

    @sent_whole()
    @collection_put_off()
    def _resolve(self, queue: int, halves_start: int, plan: Plan, now: int) -> list[Row]:
        """Read a queue's records, run the step over them, return the rows of its decisions."""
        batch = _batch()
        step_settings = self._planned.for_batch(batch.batch_id)
        halves = Range(halves_start, plan.halves_end)
        ops = Range(*ops_to_read(self._state, queue, plan))
        seen = self._state.seen()
        new_halves, new_ops = _reader_for(self._settings).read(queue, halves, ops, seen)
        secret, is_rebuild = self._fence_secret, self._is_rebuild
        changes, decisions = step(
            self._state, queue, plan, new_halves, new_ops, now, step_settings, secret, is_rebuild
        )
        self._state.apply(changes)
        self._state.keep_seen(seen)
        parts = pack(decisions, Names(step_settings.topic_prefix), batch, _QUARANTINE_BYTES)
        figures = QueueFigures.of(queue, plan, now, new_halves, decisions)
        wake_at_ms = _by_our_clock(decisions.wake_at_ms, now, new_halves, new_ops)
        return list(_rows(decisions, wake_at_ms, figures, parts))


def _reader_for(settings: Settings) -> RangeReader:
    """Return this worker's reader: Spark keeps a worker for many tasks."""
    global _reader
    if _reader is None or not _reader.is_for(settings):
        if _reader is not None:
            _reader.close()
        _reader = RangeReader(settings)
    return _reader


def _by_our_clock(wake_at_ms: int | None, now_ms: int, *read: list[StoredRecord]) -> int | None:
    """Return when to wake the queue by the driver's clock; `wake_at_ms` is by Kafka's clock.

    A `stored_at` after the planning shows how far, at least, Kafka's clock is ahead of the
    driver's.
    """
    if wake_at_ms is None:
        return None
    stored_at = max((records[-1].stored_at_ms for records in read if records), default=now_ms)
    return max(0, wake_at_ms - max(0, stored_at - now_ms))


def _rows(
    decisions: QueueDecisions,
    wake_at_ms: int | None,
    figures: QueueFigures,
    parts: Iterable[bytes],
) -> Iterator[Row]:
    due = -1 if wake_at_ms is None else wake_at_ms
    ops = -1 if decisions.fence_ops is None else decisions.fence_ops
    for part, packed in enumerate(parts):
        yield Row(
            queue=figures.queue,
            part=part,
            decisions=packed,
            wake_at_ms=due,
            fence_ops=ops,
            revoke=list(decisions.revoke) if part == 0 else None,
            figures=figures.pack() if part == 0 else None,
        )


def _batch() -> BatchName:
    """Return the batch that this task works for; Spark tells it to each task."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a queue is resolved in a task of Spark")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    query_id = context.getLocalProperty("sql.streaming.queryId")
    if batch_id is None or query_id is None:
        raise RuntimeError("Spark did not say which batch a task belongs to")
    return BatchName(int(batch_id), query_id)
