"""A world of bare delivery: the class `Delivery` writes batch after batch to a proxied Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from resolver.demo.reading import Reader
from resolver.protocol import Names

from ..judge import Judge
from ..process import Victim
from ..results import Audit
from ..sent_log import SentLog
from ..world import WHOLE_SECONDS, World
from ..world_kind import WorldKind
from .batches import Batches
from .listeners import RESOLVER

_WRITTEN_SECONDS = 20.0


class BareWorld(World):
    """Judge, rounds and results are those of any world; delivery's process is its resolver."""

    def __init__(self, home: Path, kind: WorldKind, *more: Any) -> None:
        super().__init__(home, kind, *more)
        self._file = home / "ledger.db"
        self._batches = Batches(SentLog(self._file), Names())
        self.judge = self._new_judge()

    def _new_judge(self) -> Judge:
        return Judge(SentLog(self._file), Names(), in_topics=False)

    def _start_clients(self) -> None:
        self._batches.begin()
        self.start_resolver()
        self._await_delivered()

    def another_resolver(self, *more: str, home: Path) -> Victim:
        """Start delivery; all that it needs is in the sent log."""
        arguments = ["tests.faults.network.deliverer", self.servers_of(RESOLVER)]
        return self._start("resolver", "delivery", arguments)

    def deliver(self) -> None:
        """Let the next batch be delivered."""
        self._batches.begin()
        self._await_delivered()

    def replay(self) -> None:
        """Kill delivery, and let the next one be given the last batch once more."""
        self.take_down("resolver").end()
        self.start_resolver()
        self._await_delivered()

    def _await_delivered(self) -> None:
        line = f"^(delivered: {self._batches.last})$"
        self.until(
            lambda: self.resolver and self.resolver.first_match(line), "a batch is not delivered"
        )

    def settle(self, owed: set[str], seconds: float = _WRITTEN_SECONDS) -> None:
        """See what has ended: all was written, and Kafka ends a transaction topic by topic."""
        super().settle(owed, seconds)

    def drain(self) -> None:
        """Let delivery end, and read all that it has left."""
        self.stop("resolver")
        self.settle(set(self.judge.open))

    def audit(self, name: str) -> Audit:
        """Judge all that is stored once more, from the beginning, by a new judge."""
        judge = self._new_judge()
        with Reader(self.settings, self._topics) as reader:

            def is_read() -> bool:
                judge.take(reader.read(0))
                return reader.reached_end

            self.until(is_read, "the topics can't be read to their end", WHOLE_SECONDS)
        judge.give_up(set(judge.open))
        verdict = judge.verdict
        summary = f"read again: {verdict.settled} transactions" if verdict.holds else str(verdict)
        return Audit(name, 0 if verdict.holds else 1, summary, verdict.settled)
