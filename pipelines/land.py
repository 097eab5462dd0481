"""The job `land`: every record of the protocol into six Delta tables, each once.

Runs in a session beside resolve, or by itself:

    spark-submit pipelines/land.py --bootstrap-servers H --tables DIR --checkpoint DIR
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pipelines.land_checkpoint import keep_landed, landed_batches, planned
from pipelines.land_failure import land_failure, start_failure
from pipelines.land_start import met_others, starting_offsets
from pipelines.running import STOP_SECONDS, finish_batch, run_until_stopped
from pipelines.session import spark_session, sql_options
from resolver.errors import DamagedTable, ResolverError, TxResolverError
from resolver.kafka import spark_kafka_options
from resolver.protocol import Names
from resolver.settings import Settings, load_for_command
from resolver.tables import TABLES, Table, topics_pattern
from resolver.tables.delta import (
    append,
    create_tables,
    last_commit_ms,
    missing_tables,
    table_path,
    vacuum,
    writers,
)

logger = logging.getLogger(__name__)

#: How often it is started, where each time a topic is made meanwhile.
_STARTS = 5
#: Rows of one file at most, roughly: a batch is cut into so many files as it needs.
_ROWS_PER_FILE = 125_000
#: In how many tasks files are listed: Spark's default is ten thousand.
_TIDYING = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "8"}


def land_query(
    spark: SparkSession,
    settings: Settings,
    tables: Path | str,
    checkpoint: Path | str,
    available_now: bool = False,
) -> StreamingQuery:
    """Make the tables that are missing and start the query that fills them.

    With `available_now` it ends by itself when all that was stored at its start has landed.
    Raises `ResolverError` where the checkpoint does not fit what the tables hold.
    """
    with _told_at_start(spark, tables, checkpoint):
        for _ in range(_STARTS):
            missing = missing_tables(spark, tables)
            starting = starting_offsets(spark, settings, tables, checkpoint, missing)
            create_tables(spark, tables, missing)
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
    """Stop a land query, then land whatever Kafka holds at this moment.

    Returns whether all of it landed in time. What did not lands after the next start. Raises
    `ResolverError` if the query fails, with `log` as where to read on.
    """
    if not finish_batch(query, timeout_seconds):
        return False
    with _told_at_start(spark, tables, checkpoint):
        if planned(spark, checkpoint) is None:
            last = land_query(spark, settings, tables, checkpoint, available_now=True)
        else:  # it goes on from there, and has compared that with the tables when it began
            last = _query(spark, settings, tables, checkpoint, "earliest", available_now=True)
    done = _ended(last, checkpoint, timeout_seconds, log)
    if not done:
        last.stop()
    return done


@contextmanager
def _told_at_start(
    spark: SparkSession, tables: Path | str, checkpoint: Path | str
) -> Iterator[None]:
    """Tell what keeps the query from starting as `ResolverError`, with what to do."""
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
    """What is done with a batch: each table gets its rows, in a commit that it takes once."""

    def __init__(self, names: Names, tables: Path | str, checkpoint: Path | str) -> None:
        self._names = names
        self._tables = tables
        self._checkpoint = checkpoint
        self._tidied_on: date | None = None
        #: By table, which other queries have written to it, and their last batch.
        self._others: dict[str, dict[str, int]] = {}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        spark, query_id = batch.sparkSession, _query_id(batch)
        if self._tidied_on is None:
            self._tidied_on = self._written_on(spark)
        landed = landed_batches(spark, self._checkpoint)
        batch.persist()
        try:
            counts = {row[0]: row[1] for row in batch.groupBy("topic").count().collect()}
            for table in TABLES:
                rows = sum(n for topic, n in counts.items() if table.holds(topic, self._names))
                if rows:
                    self._append(table, batch, rows, f"{query_id}.{table.name}", batch_id)
                    logger.debug("land's batch %d: %d rows in %s", batch_id, rows, table.name)
                    landed[table.name] = batch_id
        finally:
            batch.unpersist()
        keep_landed(spark, self._checkpoint, batch_id, landed)
        self._tidy(spark)
        logger.debug("land's batch %d: landed, for Spark to note in its commit log", batch_id)

    def _written_on(self, spark: SparkSession) -> date:
        """Return the day of the last batch before this run, by the tables."""
        last_ms = max(last_commit_ms(spark, table_path(self._tables, table)) for table in TABLES)
        return datetime.fromtimestamp(last_ms / 1_000, timezone.utc).date()

    def _tidy(self, spark: SparkSession) -> None:
        """With the first batch of a day: remove the files that were compacted into others."""
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
        wrote = writers(batch.sparkSession, path)
        others = {app: version for app, (version, _) in wrote.items() if app != app_id}
        if self._others.setdefault(table.name, others) != others:
            raise ResolverError(
                f"another land, with another checkpoint, writes to {path} as well: each record "
                "lands twice. Stop one of them; what has landed twice is named by the audit"
            )


def _query_id(batch: DataFrame) -> str:
    """Return the id that a checkpoint gives its query: another checkpoint, another id.

    With a fixed one Delta would take the batches of a new checkpoint, numbered from 0, for
    batches that it holds, and leave them out without a word.
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
        # Records that Kafka deleted before they landed: stop, rather than keep a ledger with gaps.
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
    """Start in a pool of its own, which the query's thread inherits."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "land")
    try:
        return writer.start()
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", cast(str, None))


def _ended(
    query: StreamingQuery,
    checkpoint: Path | str,
    timeout_seconds: float,
    log: str = "Spark's log",
) -> bool:
    """Wait for a query's end so long; raises `ResolverError` if it failed."""
    try:
        return bool(query.awaitTermination(cast(int, timeout_seconds)))
    except StreamingQueryException as failure:
        raise land_failure(failure, checkpoint, log) from failure


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Land the protocol's records in Delta tables.")
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    parser.add_argument(
        "--available-now", action="store_true", help="land what is there now, then end"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until it is told to stop (SIGINT, SIGTERM)."""
    given = _arguments(arguments)
    try:
        options = {"bootstrap_servers": given.bootstrap_servers}
        settings = load_for_command(given.config, given.set, options)
        spark = spark_session(settings, "txresolver land")
        query = land_query(spark, settings, given.tables, given.checkpoint, given.available_now)
        print(f"landing: tables={given.tables} checkpoint={given.checkpoint}", flush=True)
        run_until_stopped(lambda seconds: _ended(query, given.checkpoint, seconds))
        finish_batch(query, STOP_SECONDS)
    except TxResolverError as error:
        print(f"land: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
