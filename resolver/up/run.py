"""`txresolver up`: resolve and land in one process, with its own broker unless servers are set."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..broker import Broker
from ..broker.ports import KAFKA_PORT
from ..broker.signals import set_on_signals
from ..errors import ResolverError
from ..kafka.reach import await_broker
from ..ledger.land_failure import land_failure
from ..ledger.landing import land_query, land_rest
from ..resolve.job import Resolve
from ..resolve.rebuild import ensure_all_topics, refuse_gaps
from ..settings import Settings
from ..spark.output import output_to
from ..spark.running import STOP_SECONDS, finish_batch, has_run
from ..spark.session import spark_session
from ..spark.shutdown import end_spark
from .home import Home
from .next_steps import next_steps
from .stages import stage

if TYPE_CHECKING:
    from ..watch.jobs import JobsWatch

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2


class _Stopped(Exception):
    """Told to stop (SIGINT, SIGTERM)."""


def run(
    path: Path,
    settings: Settings,
    rebuild: bool,
    say: Callable[[str], None],
    port: int | None = None,
    watch: JobsWatch | None = None,
) -> None:
    """Run in home `path` until told to stop.

    Calls `say` with the line `delivering: …` when resolve has finished a batch, with `ready: …`
    when land has, too, and then with lines about the next steps. Without servers in the settings it
    runs a broker, on `port` if given. `watch` serves the figures of both jobs. Raises
    `ResolverError` where a query failed, `Replaced` among them.
    """
    stop = threading.Event()
    set_on_signals(stop)
    with Home(path) as home, ExitStack() as stack, suppress(_Stopped):
        broker, started = None, None
        if not settings.bootstrap_servers:
            broker = Broker(home.broker, port, preferred=KAFKA_PORT)
            started = stack.enter_context(_starting(broker))
        else:
            await_broker(settings)
        with stage(f"starting Spark (its log is {home.spark_log})", "Spark runs"):
            spark = stack.enter_context(_session(settings, home, stop))
        if broker is not None and started is not None:
            started.result()
            settings = replace(settings, bootstrap_servers=broker.bootstrap)
        if rebuild:
            ensure_all_topics(settings)
            refuse_gaps(settings)  # before the rebuild gives up anything
            home.set_resolve_checkpoint_aside()
        _raise_if_stopped(stop)
        jobs = _Jobs(spark, settings, home, broker, watch)
        where = f"bootstrap={settings.bootstrap_servers} home={path}"
        try:
            with stage(
                "starting the query resolve (its first batch takes longest)", "resolve runs"
            ):
                jobs.deliver(rebuild, stop)
            say(f"delivering: {where}")
            with stage("starting the query land (it fills the tables)", "land runs"):
                jobs.land(stop)
            say(f"ready: {where}")
            for line in next_steps(path, home, settings):
                say(line)
            jobs.watch(stop)
        except _Stopped:
            jobs.finish()
        except (Py4JError, ConnectionError) as error:
            if isinstance(error, Py4JJavaError):  # the JVM lives
                raise
            raise ResolverError(
                f"Spark's JVM ended: {home.spark_log} says why",
                remedy="if it ran out of memory: the messages of a batch must fit, "
                "max_bytes_per_trigger of them; a batch that was planned keeps its size, so give "
                "it more, --set spark.driver.memory=4g",
            ) from error
        finally:
            with suppress(Py4JError, ConnectionError):
                jobs.close()


@contextmanager
def _starting(broker: Broker) -> Iterator[Future[None]]:
    """Start a broker while Spark starts; stop the broker at the end.

    A home or a port that it can't have is refused here, before Spark starts.
    """
    broker.prepare()

    def start() -> None:
        with stage(f"starting Kafka on {broker.bootstrap} (its log is {broker.log})", "Kafka runs"):
            broker.start()

    with ThreadPoolExecutor(1, "txresolver-broker") as pool:
        starting = pool.submit(start)
        try:
            yield starting
        finally:
            wait([starting])
            broker.stop()


class _Jobs:
    """Both queries, in one session."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        home: Home,
        broker: Broker | None,
        watch: JobsWatch | None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._broker = broker
        self._watch = watch
        self._landing = (settings, home.tables, home.land_checkpoint)
        self._log = str(home.spark_log)
        self._resolve = Resolve(spark, settings, str(home.resolve_checkpoint), self._log)
        self._land: StreamingQuery | None = None

    def deliver(self, rebuild: bool, stop: threading.Event) -> None:
        """Start resolve, and return when it has finished a batch: before land takes its share."""
        self._resolve.start(rebuild)
        if self._watch is not None:
            self._watch.resolve(self._resolve)
        while not self._resolve.has_run():
            self._look(stop)

    def land(self, stop: threading.Event) -> None:
        """Start land, and return when it has finished a batch."""
        self._land = land_query(self._spark, *self._landing)
        if self._watch is not None:
            self._watch.land(self._land, str(self._landing[1]))
        while not has_run(self._land):
            self._look(stop)

    def watch(self, stop: threading.Event) -> None:
        """Wait until an error or a stop ends the run, and raise it."""
        while True:
            self._look(stop)

    def finish(self) -> None:
        """Finish the running batch and land its records, if the time allows it."""
        until = time.monotonic() + STOP_SECONDS
        self._rest()
        self._resolve.stop(STOP_SECONDS)
        if self._land is None:
            return
        remaining_seconds = max(1.0, until - time.monotonic())
        if not land_rest(self._land, self._spark, *self._landing, remaining_seconds, self._log):
            logger.warning("not all has landed within %.0f s; the next start goes on", STOP_SECONDS)

    def close(self) -> None:
        """Stop both queries, if they still run; land stops when its batch is done."""
        self._rest()
        self._resolve.stop(0)
        if self._land is not None:
            finish_batch(self._land, STOP_SECONDS)

    def _rest(self) -> None:
        if self._watch is not None:
            self._watch.rest()

    def _look(self, stop: threading.Event) -> None:
        _raise_if_stopped(stop)
        if self._watch is not None:
            self._watch.health.beat()
        if self._broker is not None:
            self._broker.check()
        if self._resolve.wait(_LOOK_SECONDS):
            self._resolve.raise_failure_or_unexpected_stop()
        if self._land is not None and not self._land.isActive:
            failure = self._land.exception()
            if failure is None:
                raise ResolverError(
                    "the query land was stopped from elsewhere", remedy="start again"
                )
            raise land_failure(failure, self._landing[-1], self._log) from failure


def _raise_if_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        _say_stopping()
        raise _Stopped


def _say_stopping() -> None:
    logger.info("stopping: the running batch may take up to %.0f s", STOP_SECONDS)


@contextmanager
def _session(settings: Settings, home: Home, stop: threading.Event) -> Iterator[SparkSession]:
    """Start Spark with its output in a file: the terminal is for lines to act on."""
    try:
        with home.spark_log.open("ab") as log, output_to(log.fileno()):
            spark = spark_session(settings, "txresolver", home=home.path)
        set_on_signals(stop)  # again: PySpark took SIGINT for itself
        _raise_if_stopped(stop)
        yield spark
    except KeyboardInterrupt:  # SIGINT, while PySpark had it
        _say_stopping()
        raise _Stopped from None
    finally:
        end_spark()
