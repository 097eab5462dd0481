"""The processes of a world: each has a log of its own, and none outlives it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from resolver.demo.processes import clean_environment

from .disk import SmallDisk
from .load import SENT_LOG
from .process import Victim

_STOP_SECONDS = 60.0
#: What is on the world's small disk, if it has one.
_ON_DISK = ("resolver", "land")
#: Where a process that works in another folder finds the tools: they are not installed.
_OUR_PATH = {"PYTHONPATH": str(Path(__file__).parents[2])}


class Processes:
    """Starts them, in the world's folder; `lock` is a descriptor that all of them hold."""

    def __init__(self, home: Path, sent_log: Path, lock: int) -> None:
        self.logs = home / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._sent_log = sent_log
        self._lock = lock
        self._count = len(list(self.logs.iterdir()))
        self._started: list[Victim] = []

    def start(
        self,
        name: str,
        title: str,
        arguments: list[str],
        disk: SmallDisk | None,
        more: Mapping[str, str] | None = None,
    ) -> Victim:
        """Start a Python module, with `more` environment; its log is known by the name."""
        self._count += 1
        self._started = [started for started in self._started if started.members()]
        log = self.logs / f"{self._count:04}-{name}.log"
        environment = {
            **clean_environment(),
            **_OUR_PATH,
            SENT_LOG: str(self._sent_log),
            **(more or {}),
        }
        prefix = disk.prefix if disk is not None and name in _ON_DISK else ()
        process = Victim(
            title, arguments, self._home, log, environment, self._lock, _STOP_SECONDS, prefix
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kill all that is left: kill -9 is what all of this is made for."""
        for process in reversed(self._started):
            process.end()
