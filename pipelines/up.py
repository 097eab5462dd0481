"""`txresolver up`: resolve and land in one process, with an own broker unless servers are given."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.ending import end_spark
from pipelines.land import land_query, land_rest
from pipelines.land_failure import land_failure
from pipelines.output import output_to
from pipelines.resolve import Resolve
from pipelines.running import STOP_SECONDS, finish_batch, has_run
from pipelines.session import spark_session
from resolver.broker import Broker
from resolver.errors import ResolverError
from resolver.home import Home
from resolver.rebuild import ensure_all_topics, refuse_gaps
from resolver.settings import Settings

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2


class _Stopped(Exception):
    """Told to stop (SIGINT, SIGTERM)."""


def run(path: Path, settings: Settings, rebuild: bool, ready: Callable[[str], None]) -> None:
    """Run in home `path` until told to stop; `ready` is called with the line that says so.

    Without servers in the settings it runs a broker. Raises `ResolverError` where a query failed,
    `Replaced` among them.
    """
    stop = threading.Event()
    _set_on_signals(stop)
    with Home(path) as home, ExitStack() as stack, suppress(_Stopped):
        broker = None
        if not settings.bootstrap_servers:
            logger.info("starting the broker in %s", home.broker)
            broker = stack.enter_context(Broker(home.broker))
            settings = replace(settings, bootstrap_servers=broker.bootstrap)
        if rebuild:
            ensure_all_topics(settings)
            refuse_gaps(settings)  # before anything is given up for the rebuild
            home.set_resolve_checkpoint_aside()
        _heed(stop)
        logger.info("starting Spark; it says what it has to say in %s", home.spark_log)
        spark = stack.enter_context(_session(settings, home, stop))
        jobs = _Jobs(spark, settings, home, broker)
        try:
            jobs.start(rebuild, stop)
            ready(f"ready: bootstrap={settings.bootstrap_servers} home={path}")
            jobs.watch(stop)
        except _Stopped:
            jobs.finish()
        except (Py4JNetworkError, ConnectionError) as error:
            raise ResolverError(
                f"Spark's JVM ended: {home.spark_log} says why. If it ran out of memory: the "
                "messages of a batch must fit, max_bytes_per_trigger of them; a batch that was "
                "planned keeps its size, so give it more, --set spark.driver.memory=4g"
            ) from error
        finally:
            with suppress(Py4JNetworkError, ConnectionError):
                jobs.close()


class _Jobs:
    """Both queries, in one session."""

    def __init__(
        self, spark: SparkSession, settings: Settings, home: Home, broker: Broker | None
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._broker = broker
        self._landing = (settings, home.tables, home.land_checkpoint)
        self._log = str(home.spark_log)
        self._resolve = Resolve(spark, settings, str(home.resolve_checkpoint), self._log)
        self._land: StreamingQuery | None = None

    def start(self, rebuild: bool, stop: threading.Event) -> None:
        """Start both, and return when both have finished a batch: to deliver comes first."""
        self._resolve.start(rebuild)
        while not self._resolve.has_run():
            self._look(stop)
        self._land = land_query(self._spark, *self._landing)
        while not has_run(self._land):
            self._look(stop)

    def watch(self, stop: threading.Event) -> None:
        """Raise what ends the run."""
        while True:
            self._look(stop)

    def finish(self) -> None:
        """Finish the running batch and land what it wrote, if that can be done in time."""
        until = time.monotonic() + STOP_SECONDS
        self._resolve.stop(STOP_SECONDS)
        if self._land is None:
            return
        left = max(1.0, until - time.monotonic())
        if not land_rest(self._land, self._spark, *self._landing, left, self._log):
            logger.warning("not all has landed within %.0f s; the next start goes on", STOP_SECONDS)

    def close(self) -> None:
        """Stop whatever still runs, land when its batch is done."""
        self._resolve.stop(0)
        if self._land is not None:
            finish_batch(self._land, STOP_SECONDS)

    def _look(self, stop: threading.Event) -> None:
        _heed(stop)
        if self._broker is not None:
            self._broker.check()
        if self._resolve.wait(_LOOK_SECONDS):
            self._resolve.raise_end()
        if self._land is not None and not self._land.isActive:
            failure = self._land.exception()
            if failure is None:
                raise ResolverError("the query land was stopped from elsewhere")
            raise land_failure(failure, self._landing[-1], self._log) from failure


def _set_on_signals(stop: threading.Event) -> None:
    """Let SIGINT and SIGTERM set the event."""

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for known in (signal.SIGINT, signal.SIGTERM):
        signal.signal(known, ask)


def _heed(stop: threading.Event) -> None:
    if stop.is_set():
        logger.info("stopping")
        raise _Stopped


@contextmanager
def _session(settings: Settings, home: Home, stop: threading.Event) -> Iterator[SparkSession]:
    """Start Spark with its output in a file: a terminal is for what an operator can act on."""
    try:
        with home.spark_log.open("ab") as log, output_to(log.fileno()):
            spark = spark_session(settings, "txresolver", home=home.path)
        _set_on_signals(stop)  # again: PySpark took SIGINT for itself
        _heed(stop)
        yield spark
    except KeyboardInterrupt:  # SIGINT, as long as PySpark had it
        logger.info("stopping")
        raise _Stopped from None
    finally:
        end_spark()
