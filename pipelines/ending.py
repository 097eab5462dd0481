"""The end of Spark: PySpark leaves its JVM to end by itself, some time after Python did."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

#: For how long the JVM and its Python workers may take to end before they are killed.
_END_SECONDS = 20.0


def end_spark() -> None:
    """Stop the session and its JVM, whatever of them there is; return when no process is left."""
    gateway = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return
    # Asked now: workers that outlive the JVM have no parent that would lead to them.
    processes = _with_children(gateway.proc.pid)
    if gateway.proc.poll() is None:
        with suppress(Py4JError, ConnectionError):  # one that was killed may not be gone yet
            _stop_session()
    _close(gateway)
    _, left = psutil.wait_procs(processes, timeout=_END_SECONDS)
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=_END_SECONDS)


def _with_children(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:  # it has ended
        return []


def _stop_session() -> None:
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    elif SparkContext._active_spark_context is not None:  # interrupted on its way to a session
        SparkContext._active_spark_context.stop()


def _close(gateway: Any) -> None:
    """Let the JVM end, as it does when its input ends."""
    # Else its thread that lets go of objects in the JVM would say, at length, that there is none.
    gateway._gateway_client.is_connected = False
    # Not by gateway.shutdown(), which waits for ever where a batch's function is still called.
    gateway.proc.stdin.close()
    # Another session of this process needs another JVM.
    SparkContext._gateway = SparkContext._jvm = None
