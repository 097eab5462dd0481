"""The job `resolve`: joins half against op, delivers commits, checks and outcomes exactly once.

Runs in a session beside land, or by itself:

    spark-submit pipelines/resolve.py --bootstrap-servers H --checkpoint DIR
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.failure import query_failed
from pipelines.running import STOP_SECONDS, finish_batch, has_run, run_until_stopped
from pipelines.session import spark_session, sql_options
from resolver.checkpoint import Checkpoint
from resolver.clock import Clock
from resolver.delivery import Delivery
from resolver.errors import Replaced, ResolverError, TxResolverError
from resolver.kafka import admin_client
from resolver.planned import step_settings
from resolver.processor import decide, slots, tasks
from resolver.protocol import Names
from resolver.ranges import ranges
from resolver.rebuild import ensure_all_topics, outcomes, rebuild_ends, refuse_gaps
from resolver.settings import Settings, load_for_command
from resolver.topic_admin import identify_topics

logger = logging.getLogger(__name__)

#: A batch's time is a literal in its plan, for which Spark would compile its classes anew in each
#: batch, to compute a row or two.
_INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Resolve:
    """The running job: its query, and what stands beside it on the driver."""

    def __init__(
        self, spark: SparkSession, settings: Settings, checkpoint: str, log: str = "Spark's log"
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._log = log
        self._checkpoint = Checkpoint(spark, checkpoint)
        self._delivery = Delivery(settings, self._checkpoint.identity())
        self._clock = Clock(settings, self._delivery, self._fail)
        self._failed = threading.Event()
        self._error: TxResolverError | None = None
        self._query: StreamingQuery | None = None
        self._rebuilding = False
        self._has_run = False
        self._stopped = False

    def start(self, rebuild: bool = False) -> None:
        """Make or verify the topics, take them over, start the query.

        With `rebuild` the checkpoint must be new: transactions with an outcome are taken as
        settled, and all others are resolved from the beginning of the topics.
        """
        ensure_all_topics(self._settings)
        if rebuild:
            refuse_gaps(self._settings)
            self._checkpoint.begin_rebuild()
        names = Names(self._settings.topic_prefix)
        ids = identify_topics(admin_client(self._settings), [names.half, names.op])
        self._checkpoint.keep_topics(ids, self._settings.queues)
        # One that was begun starts from the outcomes of then: not after another resolver's.
        is_begun = self._checkpoint.rebuild_ends() is not None
        self._delivery.start(self._checkpoint.is_new(), rebuild and not is_begun)
        self._clock.start()
        self._rebuilding = self._checkpoint.is_rebuild() and self._checkpoint.is_new()
        self._query = self._start_query(self._outcomes() if self._rebuilding else None)

    @property
    def query(self) -> StreamingQuery:
        """The streaming query, once started."""
        if self._query is None:
            raise RuntimeError("the job has not been started")
        return self._query

    def has_run(self) -> bool:
        """Whether a batch has been committed since the start."""
        self._has_run = self._has_run or has_run(self.query)
        return self._has_run

    def raise_failure(self) -> None:
        """Raise what ended the job, if anything did."""
        if self._error is not None:
            raise self._error
        failure = self.query.exception()
        if failure is None:
            return
        # One that took over with this checkpoint writes Spark's logs too: the query may fail of
        # that before the marker is looked at.
        if self._delivery.replaced():
            raise Replaced(f"another resolver took over {self._settings.topic_prefix}*")
        raise self._query_failed(failure) from failure

    def raise_end(self) -> NoReturn:
        """Raise why the job has ended: without a failure it was stopped from elsewhere."""
        self.raise_failure()
        raise ResolverError("the query resolve was stopped from elsewhere")

    def wait(self, seconds: float) -> bool:
        """Wait for the job's end so long; return whether it has ended."""
        ended = self._failed.wait(seconds) or not self.query.isActive
        if self._rebuilding and not ended and not self._checkpoint.is_new():
            self._go_on_without_outcomes()
        return ended

    def stop(self, timeout_seconds: float) -> None:
        """Let the running batch finish if it does so in time, and stop; once."""
        if self._stopped:
            return
        self._stopped = True
        # A batch that Kafka does not take would be retried for longer than a stop may take.
        give_up = threading.Timer(timeout_seconds, self._delivery.give_up)
        give_up.start()
        try:
            if self._query is not None:
                finish_batch(self._query, timeout_seconds)
        finally:  # also where Spark's JVM is gone
            give_up.cancel()
            self._delivery.give_up()
            self._clock.stop()
            self._delivery.close()

    def _outcomes(self) -> DataFrame:
        """Return the outcomes that the first batch of a rebuild starts from, however often."""
        ends = self._checkpoint.rebuild_ends()
        if ends is None:
            ends = rebuild_ends(self._settings)
            self._checkpoint.keep_rebuild_ends(ends)
        return outcomes(self._spark, self._settings, ends)

    def _go_on_without_outcomes(self) -> None:
        """Start the query anew: its first batch is committed, and Spark would read them again."""
        self.query.stop()
        self._query = self._start_query()
        self._rebuilding, self._has_run = False, True

    def _start_query(self, settled: DataFrame | None = None) -> StreamingQuery:
        planned = self._checkpoint.planned(step_settings(self._settings))
        keys = slots(self._spark, self._settings.queues)
        count = {"spark.sql.shuffle.partitions": str(tasks(self._spark, self._settings.queues))}
        new = ranges(self._spark, self._settings)
        writer = (
            decide(new, self._settings, planned, keys, settled)
            .writeStream.queryName("resolve")
            .option("checkpointLocation", self._checkpoint.spark)
            .trigger(processingTime=f"{self._settings.trigger_interval_ms} milliseconds")
            .foreachBatch(self._deliver)
        )
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", "resolve")
        try:
            with sql_options(self._spark, {**count, **_INTERPRETED}):
                return writer.start()
        except (PySparkException, Py4JJavaError) as failure:  # as where its files are damaged
            raise self._query_failed(failure) from failure
        finally:
            context.setLocalProperty("spark.scheduler.pool", cast(str, None))

    def _query_failed(self, failure: Exception) -> TxResolverError:
        remedy = (
            f"If it does so again, files of its checkpoint {self._checkpoint.path} may be damaged: "
            "start with --rebuild, on a new checkpoint; nothing is lost or delivered twice"
        )
        return query_failed("resolve", failure, self._log, remedy)

    def _deliver(self, batch: DataFrame, batch_id: int) -> None:
        logger.debug("batch %d: deciding", batch_id)
        rows = batch.toArrow().to_pylist()
        logger.debug("batch %d: decided", batch_id)
        rows.sort(key=lambda row: (row["queue"], row["part"]))
        try:
            self._delivery.deliver(batch_id, [row["decisions"] for row in rows])
        except TxResolverError as error:
            self._fail(error)
            raise
        for row in rows:
            due = row["wake_at_ms"]
            self._clock.set(row["queue"], due if due >= 0 else None)
        logger.debug("batch %d: done, for Spark to note in its commit log", batch_id)

    def _fail(self, error: TxResolverError) -> None:
        self._error = error
        self._failed.set()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Resolve transactions, exactly once.")
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    parser.add_argument("--checkpoint", required=True, help="folder of the job's checkpoint")
    parser.add_argument(
        "--rebuild", action="store_true", help="start a new checkpoint where outcomes exist"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until it is told to stop (SIGINT, SIGTERM)."""
    given = _arguments(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        options = {"bootstrap_servers": given.bootstrap_servers}
        settings = load_for_command(given.config, given.set, options)
        job = Resolve(spark_session(settings, "txresolver resolve"), settings, given.checkpoint)
        job.start(given.rebuild)
        print(f"resolving: checkpoint={given.checkpoint}", flush=True)
        try:
            if run_until_stopped(job.wait):
                job.raise_end()
        finally:
            job.stop(STOP_SECONDS)
    except TxResolverError as error:
        print(f"resolve: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
