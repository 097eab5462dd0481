"""Running a query in the foreground, and stopping it between two batches."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from pyspark.sql.streaming.query import StreamingQuery

#: For how long a running batch may go on when the job is told to stop.
STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_SIGNAL_SECONDS = 0.5


def run_until_stopped(ended: Callable[[float], bool | None]) -> None:
    """Wait until the job has `ended`, which waits for so many seconds, or SIGINT or SIGTERM."""
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for known in (signal.SIGINT, signal.SIGTERM):
        signal.signal(known, ask)
    while not stop.is_set() and not ended(_SIGNAL_SECONDS):
        pass


def finish_batch(query: StreamingQuery, timeout_seconds: float) -> bool:
    """Stop a query when no batch runs, or after the time-out; return whether none ran then.

    A batch that is cut short is run again after the next start.
    """
    until = time.monotonic() + timeout_seconds
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    finished = not query.status["isTriggerActive"]
    query.stop()
    return finished
