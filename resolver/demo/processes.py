"""The demo's processes: none outlives it, however it ends."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..broker.guard import Guarded
from ..errors import DemoError

_TAIL_LINES = 12
_LOOK_SECONDS = 0.05


class Process:
    """A Python module that runs with a log of its own, until told to stop or killed."""

    def __init__(
        self,
        name: str,
        arguments: list[str],
        folder: Path,
        log: Path,
        env: Mapping[str, str],
        lock: int,
        stop_seconds: float,
    ) -> None:
        self.name = name
        self.log = log
        self.stop_seconds = stop_seconds
        command = [sys.executable, "-u", "-m", *arguments]
        self._guarded = Guarded(command, folder, log, (lock,), env)

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
            tail = "\n  ".join(self._said().splitlines()[-_TAIL_LINES:]) or "(nothing)"
            raise DemoError(
                f"the process {self.name!r} ended, with exit status "
                f"{self._guarded.exit_status()}. The end of {self.log}:\n  {tail}"
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
        return status

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended:
            os.kill(self._guarded.pid, number)

    def _said(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except FileNotFoundError:  # its shell is about to make it
            return ""
