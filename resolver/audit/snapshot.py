"""The tables as they are at one moment, and how far what they say is known to be complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import AuditError
from ..tables import OP, RESOLUTION, TABLES
from ..tables.delta import table_path, version, writers

#: By queue: the first and last half and op that landed, when the latest op was stored, and up to
#: which half and op all is decided, and landed with all that was written beside it. When the last
#: of that was written, whatever the queue. Up to which half and time nothing that was due was
#: passed over (`overdue.passed`), and how many ops are unreadable. Null: none.
QUEUES = (
    "queue int, half_first long, half_last long, op_first long, op_last long, op_ms long, "
    "decided_half long, decided_op long, complete_ms long, passed_half long, passed_ms long, "
    "unreadable long"
)


@dataclass(frozen=True)
class Snapshot:
    """The six tables, each at one version; `ops_landed_ms` is when the last of the ops landed."""

    tables: dict[str, DataFrame]
    versions: dict[str, int]
    ops_landed_ms: int

    def __getitem__(self, name: str) -> DataFrame:
        return self.tables[name]


@dataclass(frozen=True)
class Runs:
    """The checkpoints that decided, by their query ids in order: there is one more than rebuilds.

    Land reads the partitions of a topic up to different moments. But a batch of resolve is written
    when the one before it is complete: where every partition has shown a batch, the outcomes of
    all batches before it have landed. `shown` is the place of that checkpoint, and the batch.
    """

    queries: list[str]
    shown: tuple[int, int]

    @property
    def count(self) -> int:
        return max(1, len(self.queries))

    def is_passed(self) -> Column:
        """Whether no outcome of a batch can be missing in the table."""
        place, batch = self.shown
        earlier = F.col("query_id").isin(*self.queries[:place]) if place else F.lit(False)
        last = self.queries[place] if self.queries else ""
        return earlier | ((F.col("query_id") == last) & (F.col("batch_id") < batch))


def take_snapshot(spark: SparkSession, folder: Path | str) -> Snapshot:
    """Fix a version of each table, that of `resolution` first.

    It is the last that land writes of a batch: so what the others hold is at least what landed
    with the outcomes that are read here.
    """
    tables: dict[str, DataFrame] = {}
    versions: dict[str, int] = {}
    for table in (RESOLUTION, *(other for other in TABLES if other is not RESOLUTION)):
        path = table_path(folder, table)
        found = version(spark, path)
        if found < 0:
            raise AuditError(
                f"there is no table {table.name} in {folder}: give the folder of land's tables, "
                "with --tables, or --home"
            )
        versions[table.name] = found
        tables[table.name] = spark.read.format("delta").option("versionAsOf", str(found)).load(path)
    landed = [at for _, at in writers(spark, table_path(folder, OP)).values()]
    return Snapshot(tables, versions, max(landed, default=0))


def runs(snapshot: Snapshot) -> Runs:
    """Return what each checkpoint's resolver has shown of itself in the outcomes."""
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
        at = (order.index(row.query_id), row.batch)
        shown[row.source_partition] = max(at, shown.get(row.source_partition, at))
    return Runs(order, min(shown.values(), default=(0, 0)))


def queues(
    spark: SparkSession, snapshot: Snapshot, runs: Runs, complete: bool, *beside: DataFrame
) -> DataFrame:
    """Return `QUEUES`: small, and computed once.

    `complete`: no outcome is missing in the tables and what was read beside them. `beside` have
    others of its columns, with a row for each queue.
    """
    found: dict[int, dict[str, int]] = {}
    outcomes = snapshot["resolution"]
    known_to_be = outcomes if complete else outcomes.where(runs.is_passed())
    latest = F.max(F.unix_millis("stored_at")).alias("op_ms")
    for table in (
        _bounds(snapshot["half"], "half", "offset"),
        _bounds(snapshot["op"], "op", "source_offset", latest),
        *beside,
    ):
        for row in table.collect():
            found.setdefault(row.queue, {}).update(row.asDict())
    for queue, op, half in _decided(known_to_be):
        # Both of one checkpoint: another one begins anew.
        known = found.setdefault(queue, {})
        if op > known.get("decided_op", -2):
            known.update(decided_op=op, decided_half=half)
    written = known_to_be.agg(F.max(F.unix_millis("source_timestamp"))).collect()[0][0]
    rows = [columns | {"queue": queue, "complete_ms": written} for queue, columns in found.items()]
    return spark.createDataFrame(rows, QUEUES)


def _bounds(table: DataFrame, name: str, offset: str, *more: Column) -> DataFrame:
    first, last = F.min(offset).alias(f"{name}_first"), F.max(offset).alias(f"{name}_last")
    return table.groupBy("queue").agg(first, last, *more)


def _decided(outcomes: DataFrame) -> list[tuple[int, int, int]]:
    """Return up to which op and half of each queue each checkpoint's resolver has decided.

    A batch has read all halves and ops of a queue up to those of its outcomes, and has decided
    what could be decided of them.
    """
    rows = (
        outcomes.where(F.col("queue").isNotNull())
        .groupBy("queue", "query_id")
        .agg(F.coalesce(F.max("op_offset"), F.lit(-1)), F.max("offset"))
        .collect()  # bounded by checkpoints and queues
    )
    return [(queue, op, half) for queue, _, op, half in rows]
