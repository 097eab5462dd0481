"""Running a query in the foreground, and stopping it between two batches."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.session import under_spark_submit

#: For how long a running batch may go on when the job is told to stop.
STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_SIGNAL_SECONDS = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_until_stopped(ended: Callable[[float], bool]) -> bool:
    """Wait until the job has `ended`, which waits for so many seconds, or SIGINT or SIGTERM.

    Returns whether it has ended by itself.
    """
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for known in _SIGNALS:
        signal.signal(known, ask)
    if under_spark_submit():
        _hear_in_jvm(_JvmHandler(stop))
    while not stop.is_set():
        if ended(_SIGNAL_SECONDS):
            return not stop.is_set()
    return False


def finish_batch(query: StreamingQuery, timeout_seconds: float) -> bool:
    """Stop a query when its batch is done, or after the time-out; return whether it was done.

    A batch that is cut short is run again after the next start: so is one that followed at once,
    as under a backlog, where there never is a moment without a batch.
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
    """A signal to the JVM, for Java to call."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, _signal: object) -> None:
        self._stop.set()

    class Java:
        """What it is to Java."""

        implements = ("sun.misc.SignalHandler",)


def _hear_in_jvm(handler: _JvmHandler) -> None:
    """Let the JVM pass its signals on: spark-submit's process is the JVM, Python is below it.

    By itself it would stop Spark at once, in the middle of a batch, and leave Python to fail.
    """
    gateway = SparkContext._gateway
    assert gateway is not None  # noqa: S101 - under spark-submit there always is one
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java_signal = gateway.jvm.sun.misc.Signal
    for known in _SIGNALS:
        java_signal.handle(java_signal(known.name.removeprefix("SIG")), handler)
