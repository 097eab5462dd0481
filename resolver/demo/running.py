"""The running demo: its processes, the reading and drawing meanwhile, and its end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from ..broker.signals import setting_on_signals
from ..errors import DemoError
from .processes import Process, clean_environment
from .reading import Reader, Tally
from .screen import DemoState, View
from .shop import DATABASE, open_database

_TURN_SECONDS = 0.1


class Interrupted(Exception):
    """Told to stop: Ctrl-C, SIGTERM, or the terminal is gone."""


class RunningDemo:
    """The running demo: each wait goes through `until`, which reads, draws and watches processes.

    A signal is only noted, and acted upon in `until`: no process can be started and forgotten. All
    processes hold the descriptor `lock`, so that leftovers of a demo are known.
    """

    def __init__(self, home: Path, state: DemoState, view: View, lock: int) -> None:
        self.home = home
        self.logs = home / "logs"
        self.state = state
        self._view = view
        self._lock = lock
        self._told_to_stop = threading.Event()
        self._running: list[Process] = []
        self._started = 0
        self._reader: Reader | None = None
        self._tally: Tally | None = None
        self._shows_tally = False
        self.logs.mkdir(parents=True, exist_ok=True)
        for earlier in self.logs.glob("[0-9]*-*.log"):
            earlier.unlink()
        self.database_file = home / "shop" / "orders.db"
        self.database = open_database(self.database_file)

    def __enter__(self) -> RunningDemo:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all processes that still run, the last started first."""
        with ExitStack() as ends:  # all are called, whatever one of them raises
            ends.callback(self._close_view)
            ends.callback(self.database.dispose)
            for process in self._running:
                ends.callback(self._stop_now, process)
            ends.callback(self.stop_reading)

    def noting_signals(self) -> AbstractContextManager[None]:
        """Let signals end the next wait, for the length of the block."""
        return setting_on_signals(self._told_to_stop, signal.SIGHUP)

    def phase(self, text: str) -> None:
        """Show the phase that begins now."""
        self.state.phase = text
        self.turn()

    def tell(self, event: str) -> None:
        """Show an event."""
        self.state.events.append((self.state.elapsed, event))
        self._view.tell(self.state, event)

    def start(self, name: str, title: str, arguments: list[str], stop_seconds: float) -> Process:
        """Start a Python module; its log is named by a running number and `name`."""
        self._started += 1
        log = self.logs / f"{self._started}-{name}.log"
        env = clean_environment() | {DATABASE: str(self.database_file)}
        process = Process(title, arguments, self.home, log, env, self._lock, stop_seconds)
        self._running.append(process)
        return process

    def until_ready(self, process: Process, seconds: float) -> None:
        """Wait until a process has said that it is ready."""
        missing = f"{process.name} is not ready"
        self.until(lambda: process.ready, seconds, missing, f"see {process.log}")

    def kill(self, process: Process, seconds: float) -> None:
        """End a process by kill -9."""
        process.kill()
        self._end(process, seconds)

    def stop(self, process: Process) -> None:
        """End a process; raises `DemoError` unless it ends as it should."""
        status = self._end(process, process.stop_seconds)
        if status != 0:
            how = "had to be killed" if status is None else f"ended with exit status {status}"
            raise DemoError(f"{process.name}, told to stop, {how}", remedy=f"see {process.log}")

    def read(self, reader: Reader, tally: Tally) -> None:
        """Let each `turn` from now on read."""
        self._reader, self._tally = reader, tally

    def show_tally(self) -> None:
        """Show from now on what is counted."""
        self._shows_tally = True

    def stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def until(
        self, done: Callable[[], object], seconds: float, otherwise: str, remedy: str = ""
    ) -> None:
        """Wait for a condition; `DemoError` if it is not true in time or a process has ended."""
        if not self.comes_true(done, seconds):
            raise DemoError(f"{otherwise}, after {seconds:.0f} s", remedy=remedy)

    def comes_true(self, done: Callable[[], object], seconds: float) -> bool:
        """Wait for a condition that the demo can go on without; return whether it came true."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                return False
            self.turn()
        return True

    def turn(self) -> None:
        """Let a moment pass: check the processes, read, draw."""
        if self._told_to_stop.is_set():
            raise Interrupted
        for process in self._running:
            process.check()
        if self._reader is None or self._tally is None:
            time.sleep(_TURN_SECONDS)
        else:
            for record in self._reader.read(_TURN_SECONDS):
                self._tally.take(record)
        self._draw()

    def _end(self, process: Process, seconds: float) -> int | None:
        # Draw only: `turn` would take this process's end for a failure, or leave it half stopped.
        status = process.stop(seconds, self._draw)
        self._running.remove(process)
        return status

    def _stop_now(self, process: Process) -> None:
        self.state.phase = f"stopping {process.name}; it finishes what it has begun"
        process.stop(process.stop_seconds, self._draw)

    def _close_view(self) -> None:
        self.state.phase = "everything is stopped"
        self._view.close(self.state)

    def _draw(self) -> None:
        if self._tally is not None and self._shows_tally:
            self.state.counts = self._tally.counts
            self.state.pending = self._tally.pending
            self.state.latencies = self._tally.latencies
        self._view.draw(self.state)
