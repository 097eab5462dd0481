"""The demo's processes, and their settings: none outlives it, however it ends."""

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
from ..settings import Settings

SHORTENED = {
    "transaction_timeout_ms": 1_500,
    "transaction_check_interval_ms": 1_500,
    "transaction_check_max": 3,
    "check_backoff_max_ms": 6_000,
    "land_trigger_interval_ms": 5_000,
}
#: Variables that the demo's processes need of the machine. No other may change the demo.
_KEPT = ("TXRESOLVER_JAR_CACHE", "TXRESOLVER_BROKER_HEAP")
#: Lines of a failed process's log that are shown: the last, or those of its error.
_TAIL_LINES = 12
_ERROR_LINES = 5
_LINE_LENGTH = 300
_LOOK_SECONDS = 0.05
_OTHERS_SECONDS = 20.0


def write_settings(file: Path) -> Path:
    """Write the settings file for the resolver and the agent."""
    lines = [f"{name} = {value}\n" for name, value in SHORTENED.items()]
    file.write_text("".join(["# Written by txresolver demo.\n", *lines]))
    return file


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of another resolver."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TXRESOLVER_") or name in _KEPT
    }


def described() -> str:
    """Return lines with the shortened settings and their defaults."""
    defaults = Settings()
    return "\n".join(
        f"  {name:<30} {value:>6,}  (default {getattr(defaults, name):,})"
        for name, value in SHORTENED.items()
    )


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
        """Whether the process has printed its line `ready:`."""
        return bool(self.first_match("^(ready): "))

    def first_match(self, pattern: str) -> str:
        """Return the pattern's group from the first line that matches; empty if no line does."""
        match = re.search(pattern, self._log_text(), re.MULTILINE)
        return match[1] if match else ""

    def check(self) -> None:
        """Raise `DemoError` if the process has ended by itself."""
        if self.ended:
            raise DemoError(
                f"{self.name} ended by itself, with exit status {self._guarded.exit_status()}. "
                f"From {self.log}:\n  {_end_of(self._log_text())}"
            )

    def kill(self) -> None:
        """End the process as kill -9 does."""
        self._signal(signal.SIGKILL)

    def stop(self, seconds: float, meanwhile: Callable[[], object]) -> int | None:
        """Ask it to end, after `seconds` kill it; return its exit status, None if it was killed."""
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
        """Return the process and all that it has started and that runs: all of its sessions.

        A process that it starts may have a session of its own, as a broker's Java has. By this
        session it is known after its parent is gone.
        """
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._guarded.session).children(recursive=True):
                with contextlib.suppress(ProcessLookupError):
                    self._sessions.add(os.getsid(child.pid))
        members = []
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):  # it has ended, or is another user's
                process = psutil.Process(pid)
                ours = os.getsid(pid) in self._sessions
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
        return members

    def _end_others(self, meanwhile: Callable[[], object]) -> None:
        """Wait until all that it has started has ended: Spark's JVM ends after its Python."""
        begun = time.monotonic()
        while others := self.members():
            waited = time.monotonic() - begun
            if waited > 2 * _OTHERS_SECONDS:
                raise DemoError(f"process {others[0].pid}, of {self.name}, does not end")
            if waited > _OTHERS_SECONDS:
                for process in others:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            meanwhile()
            time.sleep(_LOOK_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):  # it has ended; its shell will see it
                os.kill(self._guarded.pid, number)

    def _log_text(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except FileNotFoundError:  # its shell is about to make it
            return ""


def _end_of(log: str) -> str:
    """Return the most telling lines: from the command's own error on, or else the last ones."""
    lines = log.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    shown = lines[errors[-1] :][:_ERROR_LINES] if errors else lines[-_TAIL_LINES:]
    return "\n  ".join(line[:_LINE_LENGTH] for line in shown) or "(nothing)"
