"""One log line a minute tells what delivery has done: a resolver that works logs little."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...protocol import Names, Outcome, decode_resolution
from .packed import DecisionRecords

logger = logging.getLogger(__name__)

#: Seconds between two lines.
_INTERVAL_SECONDS = 60.0
#: Commits of a batch that are sampled, or up to twice as many. Decoding all of a large batch would
#: delay it.
_SAMPLES = 20


class _Sample(NamedTuple):
    """Seconds from a commit's stored op to its visible message.

    The sample stands for `commits` commits.
    """

    seconds: float
    commits: float


class Activity:
    """Counts decisions that Kafka committed. Logs the counts once a minute, if there are any."""

    def __init__(
        self,
        names: Names,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._names = names
        self._monotonic = monotonic
        self._clock = clock
        self._pending: dict[int, int] = {}
        self._begin()

    def pending(self, queue: int, halves: int) -> None:
        """Note how many halves of a queue are pending."""
        self._pending[queue] = halves

    def count(self, written: Sequence[DecisionRecords]) -> None:
        """Count decisions whose Kafka transaction is committed."""
        commits = [
            decision for decision in written if decision.half_headers and decision.resolution
        ]
        self._committed += len(commits)
        self._sample(commits)
        for decision in written:
            message, resolution, half_headers = decision
            if half_headers and resolution:
                continue
            if decision.is_fast:
                self._fast += 1
            elif resolution is not None:
                self._others += message is not None
                self._rolled_back += message is None
            elif message is not None and self._names.checked_group(message.topic) is not None:
                self._checks += 1

    def tell(self) -> None:
        """Log the line, if a minute is over and something happened."""
        if self._monotonic() - self._since < _INTERVAL_SECONDS:
            return
        if self._committed or self._fast or self._rolled_back or self._others or self._checks:
            logger.info("%s", self._line())
        self._begin()

    def _line(self) -> str:
        parts = [
            f"last minute: {self._committed + self._fast:,} committed",
            f"{self._fast:,} of them by their producers" if self._fast else "",
            f"{self._rolled_back:,} rolled back",
            f"{self._others:,} discarded or undeliverable" if self._others else "",
            f"{self._checks:,} checks sent",
            f"{sum(self._pending.values()):,} pending now",
            f"p50 {_median(self._samples):.2f} s from a stored commit to its visible message"
            if self._samples
            else "",
        ]
        return ", ".join(filter(None, parts))

    def _begin(self) -> None:
        self._since = self._monotonic()
        self._committed = self._fast = self._rolled_back = self._others = self._checks = 0
        self._samples: list[_Sample] = []

    def _sample(self, commits: Sequence[DecisionRecords]) -> None:
        step = max(1, len(commits) // _SAMPLES)
        sampled = commits[::step]
        for decision in sampled:
            if decision.resolution is None:
                continue
            resolution = decode_resolution(decision.resolution.value)
            if resolution.outcome is Outcome.COMMIT and resolution.ended_at is not None:
                seconds = max(0.0, self._clock() - resolution.ended_at / 1_000)
                self._samples.append(_Sample(seconds, len(commits) / len(sampled)))


def _median(samples: Sequence[_Sample]) -> float:
    ordered = sorted(samples)
    remaining = sum(sample.commits for sample in ordered) / 2
    for sample in ordered:
        remaining -= sample.commits
        if remaining <= 0:
            return sample.seconds
    return ordered[-1].seconds
