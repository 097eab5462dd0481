"""Runs a query in the foreground, and stops it between two batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql.streaming.query import StreamingQuery

from ..broker.signals import STOPS, set_on_signals
from .session import under_spark_submit

#: Time in seconds for which a running batch may go on after the job is told to stop.
STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_SIGNAL_SECONDS = 0.5


def run_until_stopped(
    ended: Callable[[float], bool], is_ready: Callable[[], bool], ready: str
) -> bool:
    """Wait for the end of the job, or for SIGINT or SIGTERM.

    `ended` waits for the seconds that it is given, and returns whether the job has ended. Prints
    `ready` when the job first `is_ready`. Returns whether the job has ended by itself.
    """
    stop = threading.Event()
    set_on_signals(stop)
    if under_spark_submit():
        _hear_in_jvm(_JvmHandler(stop))
    is_said = False
    while not stop.is_set():
        if ended(_SIGNAL_SECONDS):
            return not stop.is_set()
        if not is_said and is_ready():
            print(ready, flush=True)
            is_said = True
    return False


def finish_batch(query: StreamingQuery, timeout_seconds: float) -> bool:
    """Stop a query when its batch is done, or after the time-out; return whether it was done.

    A batch that is cut short runs again after the next start. So does a batch that followed at
    once, as under a backlog, where there is never a moment without a batch.
    """
    until = time.monotonic() + timeout_seconds
    before = _last_batch(query)

    def finished() -> bool:
        return not query.status["isTriggerActive"] or _last_batch(query) != before

    while query.isActive and not finished() and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    done = finished()
    query.stop()
    return done


def has_run(query: StreamingQuery) -> bool:
    """Whether a batch with records has ended since the query started."""
    return any(progress.numInputRows for progress in query.recentProgress)


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else progress.batchId


class _JvmHandler:
    """A handler for signals to the JVM, which Java calls."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, _signal: object) -> None:
        self._stop.set()

    class Java:
        """The Java interface that it implements."""

        implements = ("sun.misc.SignalHandler",)


def _hear_in_jvm(handler: _JvmHandler) -> None:
    """Let the JVM pass its signals on: spark-submit's process is the JVM, and Python is its child.

    Otherwise the JVM would stop Spark at once, in the middle of a batch, and Python would fail.
    """
    gateway = SparkContext._gateway
    assert gateway is not None  # noqa: S101 - under spark-submit there always is one
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java_signal = gateway.jvm.sun.misc.Signal
    for stop_signal in STOPS:
        java_signal.handle(java_signal(stop_signal.name.removeprefix("SIG")), handler)
