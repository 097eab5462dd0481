"""Applications that are stopped by SIGSTOP, but while they do a step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.support.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("application.py")


class Application:
    """One process; it serves one local transaction after the other."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def do(self, step: str, transaction_id: str) -> None:
        """Continue it, for one step."""
        process = self.process
        if step == "kill":
            self.end()
            return
        assert process.stdin is not None and process.stdout is not None
        process.send_signal(signal.SIGCONT)
        process.stdin.write(f"{step} {transaction_id}\n")
        process.stdin.flush()
        assert process.stdout.readline() in ("done\n", "refused\n")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_SECONDS)


class Applications:
    """Processes to be had and given back: starting one takes most of a second."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._free: SimpleQueue[Application] = SimpleQueue()

    @contextmanager
    def one(self) -> Iterator[Application]:
        application = Application(self._url) if self._free.empty() else self._free.get()
        try:
            yield application
        except BaseException:
            application.end()
            raise
        if application.process.returncode is None:
            self._free.put(application)

    def close(self) -> None:
        while not self._free.empty():
            self._free.get().end()
