"""Landing: writes every record of the protocol into the Delta tables, each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..errors import DamagedTable, ResolverError
from ..kafka.clients import spark_kafka_options
from ..protocol import Names
from ..settings import Settings
from ..spark.failure import sent_whole
from ..spark.points import Point
from ..spark.running import finish_batch
from ..spark.session import sql_options
from . import TABLES, Table, topics_pattern
from .delta import (
    add_columns,
    append,
    create_tables,
    last_commit_ms,
    missing_tables,
    table_path,
    vacuum,
    writers,
)
from .land_checkpoint import keep_landed, landed_batches, last_land_plan
from .land_failure import land_failure, start_failure
from .land_start import met_others, starting_offsets

logger = logging.getLogger(__name__)

#: Most starts of the query: it starts again if a topic was made meanwhile.
_STARTS = 5
#: Rough limit of rows in one file: a batch is cut into as many files as it needs.
_ROWS_PER_FILE = 125_000
#: Rows of a batch up to which Spark generates no code. Delta reads the log for each commit by a job
#: whose code takes longer to generate than such a batch takes to write.
_FEW_ROWS = 10_000
_NO_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
#: Tasks that list files: Spark's default is ten thousand.
_TIDYING = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "8"}


def land_query(
    spark: SparkSession,
    settings: Settings,
    tables: Path | str,
    checkpoint: Path | str,
    available_now: bool = False,
) -> StreamingQuery:
    """Make the tables that are missing, and start the query that fills the tables.

    With `available_now` the query ends by itself when all records stored at its start have landed.
    Raises `ResolverError` if the checkpoint does not fit the rows in the tables.
    """
    with _told_at_start(spark, tables, checkpoint):
        for _ in range(_STARTS):
            missing = missing_tables(spark, tables)
            starting = starting_offsets(spark, settings, tables, checkpoint, missing)
            create_tables(spark, tables, missing)
            add_columns(spark, tables, [table for table in TABLES if table not in missing])
            query = _query(spark, settings, tables, checkpoint, starting, available_now)
            if starting == "earliest" or not met_others(spark, query, checkpoint):
                break
            logger.info("a topic was made while land started: it starts again")
        return query


def land_rest(
    query: StreamingQuery,
    spark: SparkSession,
    settings: Settings,
    tables: Path | str,
    checkpoint: Path | str,
    timeout_seconds: float,
    log: str,
) -> bool:
    """Stop a land query, then land all records that Kafka holds at this moment.

    Returns whether all of them landed in time. The rest lands after the next start. Raises
    `ResolverError` if the query fails; the error names `log` as the place to read on.
    """
    until = time.monotonic() + timeout_seconds
    if not finish_batch(query, timeout_seconds):
        return False
    with _told_at_start(spark, tables, checkpoint):
        if last_land_plan(spark, checkpoint) is None:
            last = land_query(spark, settings, tables, checkpoint, available_now=True)
        else:  # the checkpoint was compared with the tables when the query began
            last = _query(spark, settings, tables, checkpoint, "earliest", available_now=True)
    done = wait_ended(last, checkpoint, max(1.0, until - time.monotonic()), log)
    if not done:
        last.stop()
    return done


@contextmanager
def _told_at_start(
    spark: SparkSession, tables: Path | str, checkpoint: Path | str
) -> Iterator[None]:
    """Raise a failure to start the query as `ResolverError`, with the remedy."""
    try:
        yield
    except (PySparkException, Py4JJavaError, ValueError, DamagedTable) as failure:
        raise start_failure(spark, failure, tables, checkpoint) from failure


def _query(
    spark: SparkSession,
    settings: Settings,
    tables: Path | str,
    checkpoint: Path | str,
    starting: str,
    available_now: bool,
) -> StreamingQuery:
    records = _records(spark, settings, starting)
    writer = records.writeStream.queryName("land").option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(_Landing(Names(settings.topic_prefix), tables, checkpoint))
    return _start(spark, _triggered(writer, settings, available_now))


class _Landing:
    """The landing of a batch: each table gets its rows, in a commit that it takes once."""

    def __init__(self, names: Names, tables: Path | str, checkpoint: Path | str) -> None:
        self._names = names
        self._tables = tables
        self._checkpoint = checkpoint
        self._tidied_on: date | None = None
        #: By table, the other queries that have written to it, each with its last batch.
        self._others: dict[str, dict[str, int]] = {}

    @sent_whole()
    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        spark, query_id = batch.sparkSession, _query_id(batch)
        if self._tidied_on is None:
            self._tidied_on = self._written_on(spark)
        landed = landed_batches(spark, self._checkpoint)
        batch = _leaving_a_slot(batch).persist()
        try:
            counts = {row[0]: row[1] for row in batch.groupBy("topic").count().collect()}
            for table in TABLES:
                rows = sum(n for topic, n in counts.items() if table.holds(topic, self._names))
                if rows:
                    with sql_options(spark, _NO_CODE if rows <= _FEW_ROWS else {}):
                        self._append(table, batch, rows, f"{query_id}.{table.name}", batch_id)
                    logger.debug(
                        "land's batch %d: %d %s %s", batch_id, rows, Point.IN_TABLE, table.name
                    )
                    landed[table.name] = batch_id
        finally:
            batch.unpersist()
        keep_landed(spark, self._checkpoint, batch_id, landed)
        self._tidy(spark)
        text = "land's batch %d: %s, for Spark to note in its commit log"
        logger.debug(text, batch_id, Point.LANDED)

    def _written_on(self, spark: SparkSession) -> date:
        """Return the day of the last batch before this run, by the tables' commits."""
        last_ms = max(last_commit_ms(spark, table_path(self._tables, table)) for table in TABLES)
        return datetime.fromtimestamp(last_ms / 1_000, timezone.utc).date()

    def _tidy(self, spark: SparkSession) -> None:
        """Remove files that were compacted into others, with the first batch of a day."""
        today = datetime.now(timezone.utc).date()
        if today != self._tidied_on:
            with sql_options(spark, _TIDYING):
                for table in TABLES:
                    vacuum(spark, table_path(self._tables, table))
            self._tidied_on = today

    def _append(
        self, table: Table, batch: DataFrame, count: int, app_id: str, batch_id: int
    ) -> None:
        records = batch.where(table.takes(batch["topic"], self._names))
        rows = table.rows(records).coalesce(1 + count // _ROWS_PER_FILE)
        path = table_path(self._tables, table)
        append(rows, path, app_id, batch_id)
        by_app = writers(batch.sparkSession, path)
        others = {app: version for app, (version, _) in by_app.items() if app != app_id}
        if self._others.setdefault(table.name, others) != others:
            raise ResolverError(
                f"another land, with another checkpoint, writes to {path} as well: each record "
                "lands twice",
                remedy="stop one of them; what has landed twice is named by the audit",
            )


def _leaving_a_slot(batch: DataFrame) -> DataFrame:
    """Read a batch with one task fewer than there are slots, where `resolve` shares them.

    A task keeps its slot while it waits for a broker that hangs. With a task for each partition,
    land would wait in all slots, and no message would be delivered meanwhile.
    """
    context = batch.sparkSession.sparkContext
    if not (context.master or "").startswith("local"):
        return batch
    return batch.coalesce(max(1, context.defaultParallelism - 1))


def _query_id(batch: DataFrame) -> str:
    """Return the query's id; each checkpoint gives its query another id.

    With a fixed id Delta would take the batches of a new checkpoint, numbered from 0, for batches
    that it holds. It would leave them out without a word.
    """
    query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        raise RuntimeError("Spark did not say which query a batch belongs to")
    return query_id


def _records(spark: SparkSession, settings: Settings, starting: str) -> DataFrame:
    options = {
        **spark_kafka_options(settings),
        "kafka.isolation.level": "read_committed",
        "subscribePattern": topics_pattern(Names(settings.topic_prefix)),
        "includeHeaders": "true",
        "startingOffsets": starting,
        # Stop if Kafka deleted records before they landed, rather than keep a ledger with gaps.
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(settings.land_max_offsets_per_trigger),
    }
    return spark.readStream.format("kafka").options(**options).load()


def _triggered(
    writer: DataStreamWriter, settings: Settings, available_now: bool
) -> DataStreamWriter:
    if available_now:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{settings.land_trigger_interval_ms} milliseconds")


def _start(spark: SparkSession, writer: DataStreamWriter) -> StreamingQuery:
    """Start the query in a pool of its own, which the query's thread inherits."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "land")
    try:
        return writer.start()
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", cast(str, None))


def wait_ended(
    query: StreamingQuery,
    checkpoint: Path | str,
    timeout_seconds: float,
    log: str = "Spark's log",
) -> bool:
    """Wait up to `timeout_seconds` for a query's end; raises `ResolverError` if it failed."""
    try:
        return bool(query.awaitTermination(cast(int, timeout_seconds)))
    except StreamingQueryException as failure:
        raise land_failure(failure, checkpoint, log) from failure
