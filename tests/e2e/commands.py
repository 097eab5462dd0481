"""`txresolver` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 180.0


class Command:
    """A running command; what it says is kept, and can be waited for."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "resolver", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        self._seen = 0

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def until_said(self, text: str) -> None:
        """Return once it has said something new that contains `text`."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self.said()[self._seen :]:
            ended = self.process.poll()
            assert ended is None, f"it ended with {ended}:\n{self.said()[-3_000:]}"
            assert time.monotonic() < until, f"no {text!r} in:\n{self.said()[-3_000:]}"
            time.sleep(0.005)
        self._seen = len(self.said())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for its end."""
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def command(*arguments: str, log: Path) -> Iterator[Command]:
    """Run a command; it is killed if it still runs at the end."""
    running = Command(*arguments, log=log)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
