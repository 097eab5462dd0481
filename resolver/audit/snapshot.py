"""The tables as they are at one moment, and how far what they say is known to be complete."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import AuditError
from ..tables import RESOLUTION, TABLES
from ..tables.delta import table_path, version

#: By queue: the first and last half and op that landed, and up to which half and op all is
#: decided, and landed with all that was written beside it. Null: none.
QUEUES = (
    "queue int, half_first long, half_last long, op_first long, op_last long, "
    "decided_half long, decided_op long"
)


@dataclass(frozen=True)
class Snapshot:
    """The six tables, each at one version."""

    tables: dict[str, DataFrame]
    versions: dict[str, int]

    def __getitem__(self, name: str) -> DataFrame:
        return self.tables[name]


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
    return Snapshot(tables, versions)


def queues(spark: SparkSession, snapshot: Snapshot, complete: bool) -> DataFrame:
    """Return `QUEUES`: small, and computed once.

    `complete`: no outcome is missing in the tables and what was read beside them.
    """
    half = snapshot["half"].groupBy("queue").agg(_first("offset", "half"), _last("offset", "half"))
    op = (
        snapshot["op"]
        .groupBy("queue")
        .agg(_first("source_offset", "op"), _last("source_offset", "op"))
    )
    outcomes = snapshot["resolution"]
    decided = _decided(outcomes if complete else _surely_complete(outcomes))
    joined = half.join(op, "queue", "full").join(decided, "queue", "full")
    rows = joined.select(*[field.split()[0] for field in QUEUES.split(", ")]).collect()
    return spark.createDataFrame(rows, QUEUES)  # bounded by the number of queues


def runs(snapshot: Snapshot) -> int:
    """Return how many checkpoints decided: one more than there were rebuilds."""
    return max(1, snapshot["resolution"].select("query_id").distinct().count())


def _first(offset: str, name: str) -> Column:
    return F.min(offset).alias(f"{name}_first")


def _last(offset: str, name: str) -> Column:
    return F.max(offset).alias(f"{name}_last")


def _decided(outcomes: DataFrame) -> DataFrame:
    """Return up to which half and op of each queue the resolver has decided.

    A batch has read all halves and ops of a queue up to those of its outcomes, and has decided
    what could be decided of them. Both numbers must be of one checkpoint: another one begins anew.
    """
    by_run = outcomes.groupBy("queue", "query_id").agg(
        F.struct(F.coalesce(F.max("op_offset"), F.lit(-1)), F.max("offset")).alias("reach")
    )
    return (
        by_run.groupBy("queue")
        .agg(F.max("reach").alias("reach"))
        .select(
            "queue",
            F.col("reach.col2").alias("decided_half"),
            F.col("reach.col1").alias("decided_op"),
        )
    )


def _surely_complete(outcomes: DataFrame) -> DataFrame:
    """Return the outcomes of batches before which no outcome can be missing in the table.

    Land reads the partitions of a topic up to different moments. But a batch of resolve is written
    when the one before it is complete: where every partition has shown a batch, the outcomes of
    all batches before it have landed.
    """
    began = outcomes.groupBy("query_id").agg(F.min("decided_at").alias("began"))
    placed = outcomes.join(F.broadcast(began), "query_id").withColumn(
        "at", F.struct("began", "query_id", "batch_id")
    )
    shown = placed.groupBy("source_partition").agg(F.max("at").alias("shown"))
    passed = shown.agg(F.min("shown").alias("passed"))
    return placed.join(F.broadcast(passed), F.col("at") < F.col("passed"))
