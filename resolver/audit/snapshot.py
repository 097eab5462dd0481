"""The tables at one moment, and how far their rows are known to be complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import AuditError
from ..ledger import OP, RESOLUTION, TABLES
from ..ledger.delta import latest_rows, table_path, writers
from ..protocol import names as n

#: A row for each queue; null stands for none.
#: - `…_first`, `…_last`: the first and last half and op that landed; with `_ms`, when stored.
#: - `…_end`: the end offset in Kafka (null without the topics).
#: - `op_ms`: when the latest op was stored.
#: - `decided_…`: up to which half and op all is decided. Their outcomes have landed, with all
#:   records that were written beside them.
#: - `complete_ms`: when the last of these records was written, whatever the queue.
#: - `passed_…`: up to which half and time every due half was handled (`overdue.passed`).
#: - `unreadable`: how many ops are unreadable.
QUEUES = (
    "queue int, half_first long, half_last long, half_first_ms long, half_last_ms long, "
    "half_end long, op_first long, op_last long, op_first_ms long, op_last_ms long, op_end long, "
    "op_ms long, decided_half long, decided_op long, complete_ms long, passed_half long, "
    "passed_ms long, unreadable long"
)


#: The tables whose rows are about a half or an op.
_TOLD = ("resolution", "check", "discarded", "quarantine")

#: End offsets in Kafka of each queue's partitions, by `half` or `op`, and by queue.
QueueEndOffsets = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Snapshot:
    """The tables, each at one version; `ops_landed_ms` is when the last op landed."""

    tables: dict[str, DataFrame]
    versions: dict[str, int]
    ops_landed_ms: int

    def __getitem__(self, name: str) -> DataFrame:
        return self.tables[name]


@dataclass(frozen=True)
class Runs:
    """The checkpoints that decided, by their query ids in order: there is one more than rebuilds.

    Land reads the partitions of a topic up to different moments. But a batch of resolve is written
    when the batch before it is complete. So if every partition has shown a batch, the outcomes of
    all batches before it have landed. `shown` is the index of that batch's checkpoint in `queries`,
    and the batch.
    """

    queries: list[str]
    shown: tuple[int, int]

    @property
    def count(self) -> int:
        return max(1, len(self.queries))

    def is_passed(self) -> Column:
        """Whether no outcome of the row's batch can be missing in the table."""
        index, batch = self.shown
        earlier = F.col("query_id").isin(*self.queries[:index]) if index else F.lit(False)
        last = self.queries[index] if self.queries else ""
        return earlier | ((F.col("query_id") == last) & (F.col("batch_id") < batch))


def take_snapshot(spark: SparkSession, folder: Path | str) -> Snapshot:
    """Fix a version of each table, beginning with `resolution`.

    Land writes `resolution` last in a batch. So the other tables hold at least the rows that landed
    with the outcomes that are read here.
    """
    tables: dict[str, DataFrame] = {}
    versions: dict[str, int] = {}
    for table in (RESOLUTION, *(other for other in TABLES if other is not RESOLUTION)):
        path = table_path(folder, table)
        version, rows = latest_rows(spark, path)
        if rows is None:
            raise AuditError(
                f"there is no table {table.name} in {folder}",
                remedy="give the folder of land's tables, with --tables, or --home",
            )
        versions[table.name], tables[table.name] = version, table.complete(rows)
    landed = [landed_ms for _, landed_ms in writers(spark, table_path(folder, OP)).values()]
    return Snapshot(tables, versions, max(landed, default=0))


def runs(snapshot: Snapshot) -> Runs:
    """Return the checkpoints in the outcomes, and the batch that all partitions have shown."""
    rows = (
        snapshot["resolution"]
        .where(F.col("query_id").isNotNull() & F.col("decided_at").isNotNull())
        .groupBy("query_id", "source_partition")
        .agg(F.min("decided_at").alias("began"), F.max("batch_id").alias("batch"))
        .collect()  # bounded by checkpoints and partitions
    )
    began: dict[str, datetime] = {}
    for row in rows:
        began[row.query_id] = min(row.began, began.get(row.query_id, row.began))
    order = sorted(began, key=lambda query: began[query])
    shown: dict[int, tuple[int, int]] = {}
    for row in rows:
        reached = (order.index(row.query_id), row.batch)
        shown[row.source_partition] = max(reached, shown.get(row.source_partition, reached))
    return Runs(order, min(shown.values(), default=(0, 0)))


def punctual(snapshot: Snapshot) -> DataFrame:
    """Return the outcomes that were written with their batch, without those of parked messages."""
    parked = snapshot["parked"].select("queue", "offset").where(F.col("queue").isNotNull())
    return snapshot["resolution"].join(F.broadcast(parked), ["queue", "offset"], "left_anti")


def queues(
    spark: SparkSession,
    snapshot: Snapshot,
    runs: Runs,
    end_offsets: QueueEndOffsets | None,
    *beside: DataFrame,
) -> DataFrame:
    """Return `QUEUES`: small, and computed once.

    With `end_offsets`, no outcome is missing in the tables and the records read beside them.
    `beside` have further columns, with a row for each queue.
    """
    by_queue: dict[int, dict[str, int]] = {}
    outcomes = snapshot["resolution"]
    known_to_be = outcomes if end_offsets is not None else outcomes.where(runs.is_passed())
    latest = F.max(F.unix_millis("stored_at")).alias("op_ms")
    for table in (
        _bounds(snapshot["half"], "half", "offset"),
        _bounds(snapshot["op"], "op", "source_offset", latest),
        *beside,
    ):
        for row in table.collect():
            by_queue.setdefault(row.queue, {}).update(row.asDict())
    last = [
        (queue, columns.get("half_last"), columns.get("op_last"))
        for queue, columns in by_queue.items()
    ]
    landed = spark.createDataFrame(last, "queue int, half_last long, op_last long")
    for queue, op, half in _decided(known_to_be, landed):
        # Take both from one checkpoint: another checkpoint begins again.
        columns = by_queue.setdefault(queue, {})
        if op > columns.get("decided_op", -2):
            columns.update(decided_op=op, decided_half=half)
    on_time = punctual(snapshot)
    on_time = on_time if end_offsets is not None else on_time.where(runs.is_passed())
    written = on_time.agg(F.max(F.unix_millis("source_timestamp"))).collect()[0][0]
    if end_offsets is not None:  # also for queues that only an outcome's or a copy's row names
        for queue in _named(snapshot):
            by_queue.setdefault(queue, {})
        for queue, columns in by_queue.items():
            columns.update(
                {f"{kind}_end": ends.get(queue, 0) for kind, ends in end_offsets.items()}
            )
    rows = [
        columns | {"queue": queue, "complete_ms": written} for queue, columns in by_queue.items()
    ]
    return spark.createDataFrame(rows, QUEUES)


def _named(snapshot: Snapshot) -> list[int]:
    """Return the queues that outcomes, checks, discarded messages and refused records name."""
    named = (snapshot[name].select("queue") for name in _TOLD)
    rows = reduce(DataFrame.union, named).where(F.col("queue").isNotNull()).distinct().collect()
    return [row.queue for row in rows]


def of_no_place(snapshot: Snapshot, prefix: str) -> int:
    """Return how many rows of the tables `_TOLD` don't name their half or op."""
    names = n.Names(prefix)
    no_half = F.col("queue").isNull() | F.col("offset").isNull()
    is_refused = F.coalesce(F.col("refused_topic").isin(names.half, names.op), F.lit(False))
    no_record = F.col("queue").isNull() | F.col("refused_offset").isNull() | ~is_refused
    rows = [
        snapshot[name].where(no_record if name == "quarantine" else no_half).select(F.lit(name))
        for name in _TOLD
    ]
    return reduce(DataFrame.union, rows).count()


def _bounds(table: DataFrame, name: str, offset: str, *more: Column) -> DataFrame:
    stored_ms = F.unix_millis("stored_at")
    return table.groupBy("queue").agg(
        F.min(offset).alias(f"{name}_first"),
        F.max(offset).alias(f"{name}_last"),
        F.min_by(stored_ms, F.col(offset)).alias(f"{name}_first_ms"),
        F.max_by(stored_ms, F.col(offset)).alias(f"{name}_last_ms"),
        *more,
    )


def _decided(outcomes: DataFrame, landed: DataFrame) -> list[tuple[int, int, int]]:
    """Return up to which op and half of each queue each checkpoint's resolver has decided.

    A batch has read all halves and ops of a queue up to those of its outcomes, and has decided all
    that could be decided. An outcome whose half or op has not `landed` shows nothing: they may not
    exist.
    """
    op_offset = F.col("op_offset")
    op_landed = op_offset.isNull() | (op_offset <= F.col("op_last"))
    rows = (
        outcomes.join(F.broadcast(landed), "queue")
        .where((F.col("offset") <= F.col("half_last")) & op_landed)
        .groupBy("queue", "query_id")
        .agg(F.coalesce(F.max("op_offset"), F.lit(-1)), F.max("offset"))
        .collect()  # bounded by checkpoints and queues
    )
    return [(queue, op, half) for queue, _, op, half in rows]
