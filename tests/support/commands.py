"""`txresolver` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.patience import PATIENCE_SECONDS


class Command:
    """A running command; what it says is kept, and can be waited for.

    `errors` is where its standard error goes, if not into `log` too.
    """

    def __init__(
        self,
        *arguments: str,
        log: Path,
        errors: Path | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        self._seen = len(self.output())  # what another command has said there does not count
        with log.open("ab") as output, (errors or log).open("ab") as error_output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "resolver", *arguments],
                stdout=output,
                stderr=error_output,
                cwd=cwd,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            )

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def until_said(self, text: str) -> None:
        """Return once it has said something new that contains `text`."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in (output := self.output())[self._seen :]:
            ended = self.process.poll()
            assert ended is None, f"it ended with {ended}:\n{self.output()[-3_000:]}"
            assert time.monotonic() < until, f"no {text!r} in:\n{self.output()[-3_000:]}"
            time.sleep(0.005)
        self._seen = len(output)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for its end."""
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def command(*arguments: str, log: Path, **more: Any) -> Iterator[Command]:
    """Run a command; it is killed if it still runs at the end."""
    running = Command(*arguments, log=log, **more)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
