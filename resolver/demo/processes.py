"""The demo's processes: none outlives it, however it ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from ..broker.guard import Guarded
from ..errors import DemoError

_TAIL_LINES = 12
_ERROR_LINES = 5
_LINE_LENGTH = 300
_LOOK_SECONDS = 0.05
_OTHERS_SECONDS = 20.0


class Process:
    """A Python module that runs with a log of its own, until told to stop or killed.

    `prefix` is a command that runs another, such as nsenter.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        folder: Path,
        log: Path,
        env: Mapping[str, str],
        lock: int,
        stop_seconds: float,
        prefix: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.log = log
        self.stop_seconds = stop_seconds
        command = [*prefix, sys.executable, "-u", "-m", *arguments]
        self._guarded = Guarded(command, folder, log, (lock,), env)
        self._sessions = {self._guarded.session}

    @property
    def ended(self) -> bool:
        return self._guarded.exit_status() is not None

    @property
    def ready(self) -> bool:
        """Whether it has said that it is."""
        return bool(self.said("^(ready): "))

    def said(self, pattern: str) -> str:
        """Return the group of a pattern from the first line that has it; empty if none does."""
        found = re.search(pattern, self._said(), re.MULTILINE)
        return found[1] if found else ""

    def check(self) -> None:
        """Raise `DemoError` if it has ended by itself."""
        if self.ended:
            raise DemoError(
                f"{self.name} ended by itself, with exit status {self._guarded.exit_status()}. "
                f"From {self.log}:\n  {_end_of(self._said())}"
            )

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._signal(signal.SIGKILL)

    def stop(self, seconds: float, meanwhile: Callable[[], object]) -> int | None:
        """Ask it to end, then make it; return its exit status, None if it had to be made."""
        try:
            self._signal(signal.SIGTERM)
            until = time.monotonic() + seconds
            while not self.ended and time.monotonic() < until:
                meanwhile()
                time.sleep(_LOOK_SECONDS)
        finally:
            status = self._guarded.exit_status()
            self._guarded.stop(0)
            self._end_others(meanwhile)
        return status

    def members(self) -> list[psutil.Process]:
        """Return it and what it has started, as far as that runs: all of its sessions.

        What it starts may have a session of its own, as a broker's Java has, by which it is known
        after its parent is gone.
        """
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._guarded.session).children(recursive=True):
                with contextlib.suppress(ProcessLookupError):
                    self._sessions.add(os.getsid(child.pid))
        found = []
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):  # gone meanwhile, or another user's
                process = psutil.Process(pid)
                ours = os.getsid(pid) in self._sessions
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _end_others(self, meanwhile: Callable[[], object]) -> None:
        """See the end of what it has started: Spark's JVM ends a moment after its Python."""
        begun = time.monotonic()
        while others := self.members():
            waited = time.monotonic() - begun
            if waited > 2 * _OTHERS_SECONDS:
                raise DemoError(f"process {others[0].pid}, of {self.name}, does not end")
            if waited > _OTHERS_SECONDS:
                _kill(others)
            meanwhile()
            time.sleep(_LOOK_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):  # gone, which its shell is about to see
                os.kill(self._guarded.pid, number)

    def _said(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except FileNotFoundError:  # its shell is about to make it
            return ""


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _end_of(log: str) -> str:
    """Return what says most: from the command's own error on, which may quote much, or the end."""
    lines = log.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    shown = lines[errors[-1] :][:_ERROR_LINES] if errors else lines[-_TAIL_LINES:]
    return "\n  ".join(line[:_LINE_LENGTH] for line in shown) or "(nothing)"
