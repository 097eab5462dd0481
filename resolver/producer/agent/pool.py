"""A pool of daemon threads: a thread that hangs must not keep the process from ending."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)
_IDLE_SECONDS = 60.0


class DaemonPool:
    """Starts threads when they are needed, up to `most`; idle ones end, down to `least`.

    The standard library's executor waits at exit for its threads, hung ones too.
    """

    def __init__(self, least: int, most: int, name: str) -> None:
        self._least = least
        self._most = most
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0
        self._started = 0
        self._closed = False

    def submit(self, task: Callable[[], None]) -> None:
        with self._lock:
            self._unfinished += 1
            if self._threads < min(self._unfinished, self._most):
                self._threads += 1
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        self._tasks.put(task)

    def close(self) -> None:
        """End the threads that are idle, and the others when their task returns."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._tasks.put(None)

    def _run(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                task = None
            if task is not None:
                self._do(task)
            elif self._may_end():
                return

    def _do(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException:  # SystemExit too: it would end a thread that stays counted
            _log.exception("a task of %s failed", self._name)
        finally:
            with self._lock:
                self._unfinished -= 1

    def _may_end(self) -> bool:
        with self._lock:
            surplus = self._threads > max(self._least, self._unfinished)
            if surplus or self._closed:
                self._threads -= 1
            return surplus or self._closed
