"""The tables on disk: making tables, adding rows once, and how far the tables have come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import DamagedTable
from ..kafka.oldest import Oldest
from .catalogue import TABLES
from .here import TableHere, folder_here, open_here
from .table import PARTITION_COLUMN, Table

#: The greatest offset in a table, by topic and partition.
Landed = dict[str, dict[int, int]]

_PROPERTIES = {
    # Each batch adds a file to a table. Delta itself puts small files of a day together.
    "delta.autoOptimize.autoCompact": "true",
}


def table_path(folder: Path | str, table: Table) -> str:
    """Return a table's path; `folder` may be any URI that Spark can write to."""
    return f"{str(folder).rstrip('/')}/{table.name}"


def missing_tables(spark: SparkSession, folder: Path | str) -> list[Table]:
    """Return the tables that do not exist; raises `DamagedTable`."""
    return [table for table in TABLES if not is_there(spark, table_path(folder, table))]


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a table.

    Raises `DamagedTable` if there are files without a table: Delta would take them for a table.
    """
    if version(spark, path) >= 0:
        return True
    files, folder = _files_of(spark, path)
    files_there = files.listFiles(folder, True) if files.exists(folder) else None
    while files_there is not None and files_there.hasNext():
        name = files_there.next().getPath().getName()
        if not name.startswith("."):  # a leading dot marks an unfinished file
            raise DamagedTable(f"{path} has files, such as {name}, and no table")
    return False


def can_be_listed(spark: SparkSession, path: str) -> bool:
    """Whether the files of a table's log, if any, can be listed; if not, it is out of reach."""
    try:
        files, log = _files_of(spark, f"{path}/_delta_log")
        if files.exists(log):
            files.listStatus(log)
    except (PySparkException, Py4JJavaError):
        return False
    return True


def version(spark: SparkSession, path: str) -> int:
    """Return the version that a table has now; -1 if there is no table."""
    table = _here(spark, path)
    return int(_snapshot(spark, path).version()) if table is None else table.version


def latest_rows(spark: SparkSession, path: str) -> tuple[int, DataFrame | None]:
    """Return the version that a table has now, and its rows; -1 and None if there is no table."""
    table = _here(spark, path)
    if table is not None:
        return table.version, table.rows(spark)
    latest = int(_snapshot(spark, path).version())
    if latest < 0:
        return latest, None
    reader = spark.read.format("delta").option("versionAsOf", str(latest))
    return latest, reader.load(path)


def add_columns(spark: SparkSession, folder: Path | str, tables: Sequence[Table]) -> None:
    """Add this version's columns to tables of an older one: they are null in the old rows."""
    for table in tables:
        path = table_path(folder, table)
        if set(table.schema.names) - set(_columns(spark, path)):
            # No row, only its schema: it has the comments of the columns too.
            rows = spark.createDataFrame([], table.schema)
            rows.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def _columns(spark: SparkSession, path: str) -> list[str]:
    table = _here(spark, path)
    if table is not None:
        return table.schema.names
    return list(_snapshot(spark, path).schema().fieldNames())


def create_tables(spark: SparkSession, folder: Path | str, tables: Sequence[Table]) -> None:
    """Make tables, with comments, so that empty tables can be read."""
    for table in tables:
        _create(spark, folder, table)


def _create(spark: SparkSession, folder: Path | str, table: Table) -> None:
    """Make a table."""
    _clear_what_was_begun(spark, f"{table_path(folder, table)}/_delta_log")
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


def _clear_what_was_begun(spark: SparkSession, log: str) -> None:
    """Remove the log's folder of a table that was not made to the end; keep a log with a commit."""
    files, folder = _files_of(spark, log)
    if not files.exists(folder):
        return
    names = [status.getPath() for status in files.listStatus(folder)]
    for name in names:
        if name.getName().startswith("."):
            files.delete(name, False)
    if not files.listStatus(folder):
        files.delete(folder, False)


def append(rows: DataFrame, path: str, app_id: str, version: int) -> None:
    """Add rows to a table once: Delta skips an (`app_id`, `version`) that the table holds."""
    (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", app_id)
        .option("txnVersion", version)
        .save(path)
    )


def last_commit_ms(spark: SparkSession, path: str) -> int:
    """Return when a table was last written to, in ms."""
    return int(_snapshot(spark, path).timestamp())


def vacuum(spark: SparkSession, path: str) -> None:
    """Remove the files that belong to no version of the last seven days."""
    DeltaTable.forPath(spark, path).vacuum()


def writers(spark: SparkSession, path: str) -> dict[str, tuple[int, int]]:
    """Return, by `app_id`, the last version that a table took from it, and its time in ms."""
    table = _here(spark, path)
    if table is not None:
        return table.writers
    # A table elsewhere, or without a checksum file: gather them from the log, by a Spark job.
    set_transactions = _snapshot(spark, path).setTransactions()
    return {
        writer.appId(): (writer.version(), writer.lastUpdated().get())
        for writer in map(set_transactions.apply, range(set_transactions.size()))
    }


def _here(spark: SparkSession, path: str) -> TableHere | None:
    """Return the table if it can be read without Spark; raises `DamagedTable`."""
    folder = local_folder(spark, path)
    return None if folder is None else open_here(folder)


def local_folder(spark: SparkSession, path: str) -> str | None:
    """Return the folder of a path on this machine, as `folder_here` does."""
    hadoop: Any = spark.sparkContext._jsc
    return folder_here(path, str(hadoop.hadoopConfiguration().get("fs.defaultFS")))


def _snapshot(spark: SparkSession, path: str) -> Any:
    """Return the present snapshot of Spark's Delta, whatever Delta remembers of the path.

    Its version is -1 where there is no table. Raises `DamagedTable` if the last commit is gone:
    Delta would act as if it was never made.
    """
    assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
    delta = spark._jvm.org.apache.spark.sql.delta
    pair = delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, path)
    log, snapshot = pair._1(), pair._2()
    if snapshot.version() >= 0:
        _refuse_lost_commit(path, log, snapshot.version())
    return snapshot


def _files_of(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path in Hadoop's form."""
    assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
    hadoop_path = spark._jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return hadoop_path.getFileSystem(conf), hadoop_path


def _refuse_lost_commit(path: str, log: Any, version: int) -> None:
    """Compare the last commits with their checksums, which Delta writes beside them."""
    first = log.logPath().suffix(f"/{version:020}")
    files = log.store().listFrom(first, log.newDeltaHadoopConf())
    names = set()
    while files.hasNext():
        names.add(files.next().getPath().getName())
    lost = {name[:-4] for name in names if name.endswith(".crc")} - {
        name[:-5] for name in names if name.endswith(".json")
    }
    if lost:
        raise DamagedTable(f"{path}: commit {int(min(lost))} is gone from its log")


def landed_offsets(
    spark: SparkSession, folder: Path | str, tables: Sequence[Table], oldest: Oldest
) -> Landed:
    """Return the greatest offset of each topic and partition that is in these tables.

    A row counts only if it was stored since the oldest record that Kafka has of the partition.
    Before a topic was deleted and made again, the same offsets stood for other records.
    """
    since = [
        (*partition, stored_at) for partition, stored_at in oldest.items() if stored_at is not None
    ]
    kept = spark.createDataFrame(since, "source_topic string, source_partition int, since_ms long")
    records = [
        _rows_there(spark, table_path(folder, table)).select(
            "source_topic", "source_partition", "source_offset", "source_timestamp"
        )
        for table in tables
    ]
    greatest = (
        reduce(DataFrame.unionAll, records)
        .join(F.broadcast(kept), ["source_topic", "source_partition"])
        .where(F.unix_millis("source_timestamp") >= F.col("since_ms"))
        .groupBy("source_topic", "source_partition")
        .agg(F.max("source_offset"))
    )
    landed: Landed = {}
    for topic, partition, offset in greatest.collect():  # bounded by the number of partitions
        landed.setdefault(topic, {})[partition] = offset
    return landed


def _rows_there(spark: SparkSession, path: str) -> DataFrame:
    _, rows = latest_rows(spark, path)
    if rows is None:
        raise DamagedTable(f"{path} was there, and is gone")
    return rows
