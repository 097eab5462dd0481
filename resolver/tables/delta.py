"""The tables on disk: making them, adding rows once, and how far they have come."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .catalogue import TABLES
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


def create_tables(spark: SparkSession, folder: Path | str) -> bool:
    """Make the tables that are missing, with comments, so that they can be read while empty.

    Returns whether any was there before, which may hold data.
    """
    missing = [t for t in TABLES if not DeltaTable.isDeltaTable(spark, table_path(folder, t))]
    for table in missing:
        _create(spark, folder, table)
    return len(missing) < len(TABLES)


def _create(spark: SparkSession, folder: Path | str, table: Table) -> None:
    builder = (
        DeltaTable.createIfNotExists(spark)
        .location(table_path(folder, table))
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


def landed_offsets(spark: SparkSession, folder: Path | str) -> Landed:
    """Return the greatest offset of each topic and partition that is in the tables."""
    places = [
        spark.read.format("delta")
        .load(table_path(folder, table))
        .select("source_topic", "source_partition", "source_offset")
        for table in TABLES
    ]
    greatest = (
        reduce(DataFrame.unionAll, places)
        .groupBy("source_topic", "source_partition")
        .agg(F.max("source_offset"))
    )
    landed: Landed = {}
    for topic, partition, offset in greatest.collect():  # bounded by the number of partitions
        landed.setdefault(topic, {})[partition] = offset
    return landed
