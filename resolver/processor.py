"""The stateful processor around the step: a queue is a key, its state one map of bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgpack
import numpy as np
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.group import GroupedData
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from .delivery.packed import Batch, pack
from .garbage import collection_put_off
from .planned import PlannedSettings
from .protocol import Names, Outcome, StoredRecord
from .ranges import RANGES
from .records import Range, Records, Seen
from .settings import Settings
from .step import Changes, Plan, ops_to_read, settle, step

#: What a batch gives to delivery: for each queue with input at least one row, in parts, each with
#: when the queue wants to be woken, in ms by the driver's clock, -1 for never.
DECISIONS = "queue int, part int, decisions binary, wake_at_ms long"
#: What a quarantined record may take: a half of the default size, and the marks put on it.
_QUARANTINE_BYTES = 1_048_576 + 32_768

#: How many offsets' outcomes are in one row at most.
_OUTCOMES_AT_ONCE = 100_000
#: Spark's, wherever it hashes.
_HASH_SEED = 42
# Text would be parsed by the JVM, in each task anew.
_KEY = StructType([StructField("key", StringType())])
_VALUE = StructType([StructField("value", BinaryType())])
_GIVEN = [*(field.split()[0] for field in RANGES.split(", ")), "now_ms"]
#: Where the state has what was read last, beside the keys of the step.
_SEEN = "seen"
_reader: Records | None = None
#: To the state of the worker's last task: see `QueueProcessor.close`.
_connection: Any = None


def decide(
    ranges: DataFrame,
    settings: Settings,
    planned: PlannedSettings,
    slots: list[int],
    outcomes: DataFrame | None = None,
) -> DataFrame:
    """Resolve the records of ranges (`resolver.ranges.RANGES`); return `DECISIONS`.

    `settings` has where the records are, `planned` how each batch decides, `slots` each queue's
    grouping key (see `slots`); `outcomes` (queue, offset, outcome) is what a rebuild takes as
    settled.
    """
    initial = None if outcomes is None else _initial(outcomes, slots)
    return (
        ranges.select(_slot(slots), "*", _now())
        .groupBy("slot")
        .transformWithState(
            QueueProcessor(settings, planned, slots),
            outputStructType=DECISIONS,
            outputMode="Append",
            timeMode="None",
            initialState=initial,
        )
    )


def _initial(outcomes: DataFrame, slots: list[int]) -> GroupedData:
    """Return outcomes as rows of many: Spark gives a processor one row after the other."""
    many = (F.col("offset") / _OUTCOMES_AT_ONCE).cast("long").alias("part")
    together = F.collect_list(F.struct("offset", "outcome")).alias("found")
    return (
        outcomes.groupBy(_slot(slots), many)
        .agg(together)
        .select("slot", "found.offset", "found.outcome", _now())
        .groupBy("slot")
    )


def tasks(spark: SparkSession, queues: int) -> int:
    """Return how many tasks decide: one for each queue, or for each core if they share evenly.

    A checkpoint keeps the number that it began with.
    """
    context = spark.sparkContext
    cores = context.defaultParallelism if (context.master or "").startswith("local") else queues
    return cores if queues % cores == 0 else queues


def slots(spark: SparkSession, queues: int) -> list[int]:
    """Return a grouping key for each queue, such that Spark spreads them evenly over its tasks.

    Spark hashes keys: of the queues 0 to 3 themselves it would give three to one of four tasks.
    These are even for as many tasks as queues, and for each number that divides the queues.
    """
    assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
    # What a hash partitioning does with an int; a job of Spark's for it would delay each start.
    hashing = spark._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32(_HASH_SEED)
    keys: dict[int, int] = {}
    for slot in itertools.count():
        keys.setdefault(hashing.hashInt(slot) % queues, slot)
        if len(keys) == queues:
            break
    return [keys[queue] for queue in range(queues)]


class QueueProcessor(StatefulProcessor):
    """Reads a queue's records of the batch and runs the step over them."""

    def __init__(self, settings: Settings, planned: PlannedSettings, slots: list[int]) -> None:
        self._kafka = settings
        self._planned = planned
        self._slots = slots

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the queue's state."""
        global _connection
        _connection = cast(Any, handle)._statefulProcessorApiClient
        self._state = _State(handle.getMapState("state", _KEY, _VALUE))

    def close(self) -> None:
        """Leave the connection to the state open, for Spark to close at the end of the task.

        Spark 4.2.0 closes its end only by the interrupt of a thread that still listens. Told that
        the processor is closed, or with our end closed, it does not listen any more, and leaves a
        socket open for each task until no port is left (SPARK-58932, mended in Spark 4.2.1).
        """
        _connection.set_handle_state = lambda _state: None

    def handleInitialState(
        self,
        key: Any,
        initialState: Any,
        timerValues: Any,
    ) -> None:
        """Take outcomes as settled: the first batch of a rebuild."""
        outcomes = [Outcome(outcome) for outcome in initialState["outcome"]]
        offsets = np.array(initialState["offset"], np.int64)
        now = initialState["now_ms"]
        self._state.apply(settle(self._state, self._slots.index(key[0]), offsets, outcomes, now))

    def handleInputRows(
        self,
        key: Any,
        rows: Any,
        timerValues: Any,
    ) -> Iterator[Row]:
        """Run the step on a queue's records of the batch."""
        (given,) = rows  # one of each queue
        queue, halves_start, *planned, now = (given[name] for name in _GIVEN)
        yield from self._resolve(queue, halves_start, Plan(*planned), now)

    @collection_put_off()
    def _resolve(self, queue: int, halves_start: int, plan: Plan, now: int) -> list[Row]:
        """Read a queue's records, run the step over them, return the rows of its decisions."""
        batch = _batch()
        settings = self._planned.at(batch.batch_id)
        halves = Range(halves_start, plan.halves_end)
        ops = Range(*ops_to_read(self._state, queue, plan))
        seen = self._state.seen()
        read = _records(self._kafka).read(queue, halves, ops, seen)
        changes, decisions = step(self._state, queue, plan, *read, now, settings)
        self._state.apply(changes | {_SEEN: msgpack.packb(seen)})
        parts = pack(decisions, Names(settings.topic_prefix), batch, _QUARANTINE_BYTES)
        return list(_rows(queue, _by_our_clock(decisions.wake_at_ms, now, *read), parts))


class _State(Mapping[str, bytes]):
    """A queue's map state, as the step reads it."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getitem__(self, key: str) -> bytes:
        value = self._state.getValue((key,))
        if value is None:
            raise KeyError(key)
        return bytes(value[0])

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._state.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def seen(self) -> dict[str, Seen]:
        """Return what was read last of the queue's topics."""
        packed = self.get(_SEEN, b"\x80")
        return {topic: Seen(*record) for topic, record in msgpack.unpackb(packed).items()}

    def apply(self, changes: Changes) -> None:
        """Write what a step changed."""
        for key, value in changes.items():
            if value is None:
                self._state.removeKey((key,))
            else:
                self._state.updateValue((key,), (value,))


def _records(settings: Settings) -> Records:
    """Return this worker's reader: Spark keeps a worker for many tasks."""
    global _reader
    if _reader is None or not _reader.is_for(settings):
        if _reader is not None:
            _reader.close()
        _reader = Records(settings)
    return _reader


def _by_our_clock(wake_at_ms: int | None, now_ms: int, *read: list[StoredRecord]) -> int | None:
    """Return when to wake the queue where Kafka's clock, by which it counts, is ahead of ours.

    It is so far ahead, at least, as its last records were stored after the batch was planned.
    """
    if wake_at_ms is None:
        return None
    stored_at = max((records[-1].stored_at_ms for records in read if records), default=now_ms)
    return max(0, wake_at_ms - max(0, stored_at - now_ms))


def _rows(queue: int, wake_at_ms: int | None, parts: Iterable[bytes]) -> Iterator[Row]:
    for part, packed in enumerate(parts):
        due = -1 if wake_at_ms is None else wake_at_ms
        yield Row(queue=queue, part=part, decisions=packed, wake_at_ms=due)


def _batch() -> Batch:
    """Return what Spark tells each task of the batch that it works for."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a queue is resolved in a task of Spark")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    query_id = context.getLocalProperty("sql.streaming.queryId")
    if batch_id is None or query_id is None:
        raise RuntimeError("Spark did not say which batch a task belongs to")
    return Batch(int(batch_id), query_id)


def _now() -> Column:
    """Return the time of the batch, in ms: the same in each replay.

    Spark's processing time would be too. It is for timers, though, of which there are none here,
    and which each task would look for.
    """
    return F.unix_millis(F.current_timestamp()).alias("now_ms")


def _slot(slots: list[int]) -> Column:
    keys = F.array(*(F.lit(slot) for slot in slots))
    return F.element_at(keys, F.col("queue") + 1).alias("slot")
