"""Processes that end with the test, however it ends: by a kill -9 of pytest too."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from resolver.broker.guard import Guarded
from tests.support.patience import PATIENCE_SECONDS

_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.05
#: What would change a cluster or a job and comes from whoever runs the tests.
_FOREIGN = re.compile(r"(SPARK|PYSPARK|PYTHON|HADOOP|TXRESOLVER)_?")


class Process:
    """A command in a folder; what it says is kept there, and can be waited for."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._out = folder / f"{name}.out"
        unset = [part for key in os.environ if _FOREIGN.match(key) for part in ("-u", key)]
        values = [f"{key}={value}" for key, value in environment.items()]
        self._guarded = Guarded(["env", *unset, *values, *command], folder, self._out, keep=())

    @property
    def pid(self) -> int:
        return self._guarded.pid

    def said(self) -> str:
        return self._out.read_text(errors="replace") if self._out.exists() else ""

    def until_said(self, pattern: str) -> re.Match[str]:
        """Return the match once it has said this; fail if it ends before."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            ended = self._guarded.exit_status()
            if found := re.search(pattern, self.said()):
                return found
            assert ended is None, f"{self.name} ended with {ended}:\n{self.said()[-5_000:]}"
            assert time.monotonic() < until, f"no {pattern!r} in:\n{self.said()[-5_000:]}"
            time.sleep(_LOOK_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def exit_code(self) -> int:
        """Wait for its end."""
        until = time.monotonic() + PATIENCE_SECONDS
        while (ended := self._guarded.exit_status()) is None:
            assert time.monotonic() < until, f"{self.name} goes on:\n{self.said()[-5_000:]}"
            time.sleep(_LOOK_SECONDS)
        return ended

    def stop(self) -> None:
        """End it, and whatever it has started."""
        started = _started_by(self.pid)
        self._guarded.stop(_GRACE_SECONDS)
        _, left = psutil.wait_procs(started, timeout=_GRACE_SECONDS)
        for process in left:
            process.kill()


def _started_by(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []
