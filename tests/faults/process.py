"""A process and what it has started, and what a fault does to them."""

from __future__ import annotations

import contextlib
import re
import signal
import time

import psutil

from resolver.demo.processes import Process

from .doomed import HIT

_GONE_SECONDS = 30.0
_LOOK_SECONDS = 0.02


class Victim(Process):
    """A process of the campaign."""

    def hit(self, victim: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to `all` of it, to its `python` or its `jvm` only; return to how many."""
        count = 0
        if victim == "python":
            self._signal(signal.Signals(number))
            count = 1
        for member in self.members():
            with contextlib.suppress(psutil.Error):  # gone meanwhile
                if victim == "all" or (victim == "jvm" and member.name() == "java"):
                    member.send_signal(number)
                    count += 1
        return count

    def workers(self) -> list[psutil.Process]:
        """Return Spark's Python workers, and what forks them, which has the same name."""
        workers = []
        for member in self.members():
            with contextlib.suppress(psutil.Error):
                if "pyspark.daemon" in member.cmdline():
                    workers.append(member)
        return workers

    def end(self) -> None:
        """Kill it and all that it has started; return when nothing of it is left."""
        until = time.monotonic() + _GONE_SECONDS
        while members := self.members():
            self.hit("all")
            if time.monotonic() > until:
                raise TimeoutError(f"{self.name}: {members} don't die")
            time.sleep(_LOOK_SECONDS)

    @property
    def ready(self) -> bool:
        """Whether it has said that it is; the job by itself says `resolving`."""
        return bool(self.first_match("^(ready|resolving): "))

    @property
    def exit_status(self) -> int | None:
        return self._guarded.exit_status()

    @property
    def hit_at(self) -> str:
        """The log line at which it was hit last; empty where it was not."""
        return hits[-1] if (hits := self.hits) else ""

    @property
    def hits(self) -> list[str]:
        """The log lines at which it was hit: one that was halted lives on, and may be again."""
        return self.all_matches(f"^{HIT}(.*)$")

    def all_matches(self, pattern: str) -> list[str]:
        """Return the group of a pattern from each line that has it."""
        return re.findall(pattern, self._log_text(), re.MULTILINE)

    @property
    def last_words(self) -> str:
        """The last line of its log: where it failed, why."""
        lines = self._log_text().strip().splitlines()
        return lines[-1] if lines else ""
