"""Ends Spark: PySpark would leave its JVM to end by itself, some time after Python."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

#: Time in seconds for the JVM and its Python workers to end, before they are killed.
_END_SECONDS = 20.0


def end_spark() -> None:
    """Stop the session and its JVM, as far as they exist; return when no process is left."""
    gateway = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return
    # List the processes now: workers that outlive the JVM have no parent that leads to them.
    processes = _with_children(gateway.proc.pid)
    if gateway.proc.poll() is None:
        with suppress(Py4JError, ConnectionError):  # a killed JVM may not be gone yet
            _stop_session()
    _close(gateway)
    _, alive = psutil.wait_procs(processes, timeout=_END_SECONDS)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=_END_SECONDS)


def _with_children(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:  # the process has ended
        return []


def _stop_session() -> None:
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    elif SparkContext._active_spark_context is not None:  # interrupted before it had a session
        SparkContext._active_spark_context.stop()


def _close(gateway: Any) -> None:
    """Let the JVM end, as it does when its input ends."""
    # Mark it as not connected: the thread that releases objects in the JVM would log long errors.
    gateway._gateway_client.is_connected = False
    # Close the input instead of gateway.shutdown(), which never returns while a batch's function is
    # still called.
    gateway.proc.stdin.close()
    # Forget the gateway: another session of this process needs another JVM.
    SparkContext._gateway = SparkContext._jvm = None
