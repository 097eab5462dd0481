"""What a person sees while the demo runs; plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .ledger import NONE, Counts, Latency

_EVENTS = 5


@dataclass
class Scene:
    """What is to be shown: the play changes it, views draw it."""

    seconds: float
    kills_planned: int
    phase: str = "starting"
    shop: str = "not started"
    kills: int = 0
    counts: Counts = NONE
    pending: int = 0
    latencies: Sequence[Latency] = ()
    sending_since: float | None = None
    sent_for: float = 0.0
    started: float = field(default_factory=time.monotonic)
    events: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_EVENTS))

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def sending(self) -> float:
        """For how long orders have been sent."""
        return self.sent_for if self.sending_since is None else self._since_sending()

    @property
    def rate(self) -> float:
        """Orders a second, over the whole time of sending."""
        return self.counts.begun / self.sending if self.sending >= 1 else 0.0

    def begin_sending(self) -> None:
        self.sending_since = time.monotonic()

    def end_sending(self) -> None:
        self.sent_for = self._since_sending()
        self.sending_since = None

    def _since_sending(self) -> float:
        return 0.0 if self.sending_since is None else time.monotonic() - self.sending_since


class View(Protocol):
    """Draws a scene, as often as it likes, and tells each event once."""

    def draw(self, scene: Scene) -> None: ...

    def tell(self, scene: Scene, event: str) -> None: ...

    def close(self, scene: Scene) -> None: ...


class Lines:
    """Plain lines: what is going on, each event, and now and then how things stand."""

    def __init__(self, every_seconds: float = 5.0) -> None:
        self._every = every_seconds
        self._due = 0.0
        self._phase = ""

    def draw(self, scene: Scene) -> None:
        if scene.phase != self._phase:
            self._phase = scene.phase
            self._say(scene, scene.phase)
        if scene.counts.begun and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            self._say(scene, summary(scene))

    def tell(self, scene: Scene, event: str) -> None:
        self._say(scene, event)

    def close(self, scene: Scene) -> None:
        if scene.counts.begun:
            self._say(scene, summary(scene))

    def _say(self, scene: Scene, text: str) -> None:
        print(f"{clock(scene.elapsed)}  {text}", flush=True)


def summary(scene: Scene) -> str:
    """Say in one line how things stand."""
    c = scene.counts
    undeliverable = f", {c.undeliverable:,} undeliverable" if c.undeliverable else ""
    return (
        f"{c.begun:,} orders: {c.committed:,} committed ({c.committed_by_check:,} by check), "
        f"{c.rolled_back:,} rolled back ({c.rolled_back_by_check:,} by check), "
        f"{c.discarded:,} discarded{undeliverable}, {scene.pending:,} pending; "
        f"{c.checks:,} checks, {scene.kills} kills; op to visible {latency_text(op_times(scene))}"
    )


def op_times(scene: Scene) -> list[float]:
    """Return the seconds from an op's storing until its message was seen."""
    return [latency.op_to_visible for latency in scene.latencies]


def half_times(scene: Scene) -> list[float]:
    """Return the seconds from a half's storing until its message was seen."""
    return [latency.half_to_visible for latency in scene.latencies]


def latency_text(seconds: Sequence[float]) -> str:
    """Write the median and what 1 of 100 exceeds."""
    half, most = percentile(seconds, 0.5), percentile(seconds, 0.99)
    return f"p50 {seconds_text(half)}, p99 {seconds_text(most)}"


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` of the others do not exceed; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def seconds_text(seconds: float | None) -> str:
    """Write seconds; a dash where nothing was measured."""
    return "-" if seconds is None else f"{seconds:.2f} s"


def clock(seconds: float) -> str:
    """Write minutes and seconds."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"
