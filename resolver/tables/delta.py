"""The tables on disk: making them, adding rows once, and how far they have come."""

from __future__ import annotations

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .table import PARTITION_COLUMN, Table

#: Topic, partition and the greatest offset of it that is in a table.
Landed = dict[str, dict[int, int]]

_PROPERTIES = {
    # A file per batch and table: Delta itself puts small files of a day together.
    "delta.autoOptimize.autoCompact": "true",
}


def table_path(folder: Path | str, table: Table) -> str:
    """Return where a table is; `folder` may be any URI that Spark can write to."""
    return f"{str(folder).rstrip('/')}/{table.name}"


def create_table(spark: SparkSession, folder: Path | str, table: Table) -> None:
    """Make an empty table, with comments, so that it can be read before anything has landed."""
    path = table_path(folder, table)
    if DeltaTable.isDeltaTable(spark, path):
        return
    builder = (
        DeltaTable.createIfNotExists(spark)
        .location(path)
        .addColumns(table.schema)
        .partitionedBy(PARTITION_COLUMN)
        .comment(table.comment)
    )
    for name, value in _PROPERTIES.items():
        builder = builder.property(name, value)
    builder.execute()


def append(rows: DataFrame, path: str, app_id: str, version: int) -> None:
    """Add rows to a table once: Delta passes over a (`app_id`, `version`) that it holds."""
    (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", app_id)
        .option("txnVersion", version)
        .save(path)
    )


def landed_offsets(spark: SparkSession, folder: Path | str, table: Table) -> Landed:
    """Return the greatest offset of each topic and partition that is in a table."""
    landed: Landed = {}
    for row in (
        spark.read.format("delta")
        .load(table_path(folder, table))
        .groupBy("source_topic", "source_partition")
        .agg(F.max("source_offset"))
        .collect()  # bounded by the number of partitions
    ):
        landed.setdefault(row[0], {})[row[1]] = row[2]
    return landed
