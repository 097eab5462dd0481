"""Where the demo plays: its processes, what is read and drawn meanwhile, and its end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from ..errors import DemoError
from .database import OrderDatabase
from .ledger import Counts, Ledger
from .processes import Process
from .reading import Reader
from .shop import DATABASE
from .shortened import clean_environment
from .view import Scene, View

_TURN_SECONDS = 0.1
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Told to stop: Ctrl-C, SIGTERM, or the terminal is gone."""


class Stage:
    """Everything that waits goes through `until`, which reads, draws, and looks after the others.

    A signal is only noted, and acted upon there: no process can be started and forgotten.
    `lock` is a descriptor that all processes hold, so that what remains of a demo is known.
    """

    def __init__(self, home: Path, scene: Scene, view: View, lock: int) -> None:
        self.home = home
        self.logs = home / "logs"
        self.scene = scene
        self._view = view
        self._lock = lock
        self._told_to_stop = threading.Event()
        self._running: list[Process] = []
        self._started = 0
        self._ledger: Ledger | None = None
        self._reader: Reader | None = None
        self._before: Counts | None = None
        self.logs.mkdir(parents=True, exist_ok=True)
        for earlier in self.logs.glob("[0-9]*-*.log"):
            earlier.unlink()
        self.database_file = home / "shop" / "orders.db"
        self.database = OrderDatabase(self.database_file)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop whatever still runs, the last started first."""
        with ExitStack() as all_of_it:  # whatever one of them raises
            all_of_it.callback(self._close_view)
            all_of_it.callback(self.database.close)
            for process in self._running:
                all_of_it.callback(self._stop_now, process)
            all_of_it.callback(self.stop_reading)

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Let signals end the next wait, for the length of the block."""

        def note(_number: int, _frame: FrameType | None) -> None:
            self._told_to_stop.set()

        before = {number: signal.signal(number, note) for number in _STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def phase(self, text: str) -> None:
        """Say what is going on from now on."""
        self.scene.phase = text
        self.turn()

    def tell(self, event: str) -> None:
        """Say what has happened."""
        self.scene.events.append((self.scene.elapsed, event))
        self._view.tell(self.scene, event)

    def start(self, name: str, title: str, arguments: list[str], stop_seconds: float) -> Process:
        """Start a Python module; its log is called `name`, after how many came before."""
        self._started += 1
        log = self.logs / f"{self._started}-{name}.log"
        env = clean_environment() | {DATABASE: str(self.database_file)}
        process = Process(title, arguments, self.home, log, env, self._lock, stop_seconds)
        self._running.append(process)
        return process

    def until_ready(self, process: Process, seconds: float) -> None:
        """Wait until a process has said that it is ready."""
        self.until(
            lambda: process.ready, seconds, f"{process.name} is not ready, see {process.log}"
        )

    def kill(self, process: Process, seconds: float) -> None:
        """End a process by kill -9."""
        process.kill()
        self._end(process, seconds)

    def stop(self, process: Process) -> None:
        """End a process; `DemoError` where it ends otherwise than it should."""
        status = self._end(process, process.stop_seconds)
        if status != 0:
            said = "had to be killed" if status is None else f"ended with exit status {status}"
            raise DemoError(f"{process.name}, told to stop, {said}; see {process.log}")

    def read(self, reader: Reader, ledger: Ledger) -> None:
        """From now on read whenever time passes."""
        self._reader, self._ledger = reader, ledger

    def stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def count_from_here(self) -> Counts:
        """Let the scene show only what comes from now on; return what came before."""
        if self._ledger is None:
            raise AssertionError("nothing is read yet")
        self._before = self._ledger.counts
        self._ledger.latencies.clear()
        return self._before

    def until(self, done: Callable[[], object], seconds: float, otherwise: str) -> None:
        """Wait for a condition; `DemoError` if it is not true in time or a process has ended."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                raise DemoError(f"{otherwise}, after {seconds:.0f} s")
            self.turn()

    def turn(self) -> None:
        """Let a moment pass."""
        if self._told_to_stop.is_set():
            raise Interrupted
        for process in self._running:
            process.check()
        if self._reader is None or self._ledger is None:
            time.sleep(_TURN_SECONDS)
        else:
            for record in self._reader.read(_TURN_SECONDS):
                self._ledger.take(record)
        self._draw()

    def _end(self, process: Process, seconds: float) -> int | None:
        # No turn: it would take this process's end for a failure, or leave it half stopped.
        status = process.stop(seconds, self._draw)
        self._running.remove(process)
        return status

    def _stop_now(self, process: Process) -> None:
        self.scene.phase = f"stopping {process.name}; it finishes what it has begun"
        process.stop(process.stop_seconds, self._draw)

    def _close_view(self) -> None:
        self.scene.phase = "everything is stopped"
        self._view.close(self.scene)

    def _draw(self) -> None:
        if self._ledger is not None and self._before is not None:
            self.scene.counts = self._ledger.counts.since(self._before)
            self.scene.pending = self._ledger.pending
            self.scene.latencies = self._ledger.latencies
        self._view.draw(self.scene)
