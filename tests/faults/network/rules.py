"""Rules: which frames are delayed, silenced or cut off; the late ones are in `late`."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from .frames import Request

if TYPE_CHECKING:
    from .link import Link

REQUEST, ANSWER = "request", "answer"


class Fate(Enum):
    """What becomes of a frame: handed on, lost with its connection, or held behind a reset."""

    PASS = "pass"  # noqa: S105 - no password
    CUT = "cut"
    HOLD = "hold"


class Frame:
    """A frame on its way, and when it came (seconds, monotonic)."""

    def __init__(
        self, side: str, link: Link, request: Request, data: bytes, received_at: float
    ) -> None:
        self.side = side
        self.link = link
        self.request = request
        self.data = data
        self.received_at = received_at


@dataclass(frozen=True)
class Selection:
    """Which frames a rule is for; what is empty selects all.

    `listener` is how the listener's name begins, `client` a part of the `client.id`. Of the frames
    that fit a `share` is drawn, `times` of them at most (0: no limit).
    """

    side: str = REQUEST
    listener: str = ""
    client: str = ""
    apis: tuple[str, ...] = ()
    share: float = 1.0
    times: int = 0
    seed: int = 0

    def fits(self, frame: Frame) -> bool:
        request = frame.request
        return (
            frame.side == self.side
            and frame.link.listener.startswith(self.listener)
            and self.client in request.client
            and (not self.apis or request.api in self.apis)
        )


@dataclass
class Seen:
    """What shows that a rule was carried out."""

    counts: Counter[str] = field(default_factory=Counter)
    events: list[dict[str, Any]] = field(default_factory=list)
    over: bool = False

    def note(self, what: str, frame: Frame, **more: str) -> None:
        """Count a frame, and describe it."""
        request, link = frame.request, frame.link
        where = f"{request.api} of connection {link.number}"
        self.counts[request.api] += 1
        if len(self.events) < 100:  # of a latency there are thousands
            self.events.append({"what": what, "frame": where, "at": time.time(), **more})


class Rule:
    """What is done to the frames of a selection."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.seen = Seen()
        self._hit = 0
        self._chance = random.Random(selection.seed)  # noqa: S311 - repeatable

    async def apply(self, frame: Frame) -> Fate:
        """Do it to a frame, if it is one of them."""
        return await self._hit_by(frame) if self._is_chosen(frame) else Fate.PASS

    async def _hit_by(self, frame: Frame) -> Fate:
        raise NotImplementedError

    def _is_chosen(self, frame: Frame) -> bool:
        chosen = self.selection
        if not chosen.fits(frame) or (chosen.times and self._hit >= chosen.times):
            return False
        if self._chance.random() >= chosen.share:
            return False
        self._hit += 1
        return True

    def end(self) -> None:
        """Hold nothing any more: the rule is taken away."""


class Delay(Rule):
    """Each frame goes on some seconds after it came; those behind it are not delayed by more."""

    def __init__(self, selection: Selection, seconds: float) -> None:
        super().__init__(selection)
        self._seconds = seconds

    async def _hit_by(self, frame: Frame) -> Fate:
        self.seen.note("delayed", frame)
        await asyncio.sleep(frame.received_at + self._seconds - time.monotonic())
        return Fate.PASS


class Silence(Rule):
    """Nothing comes through for some seconds from now on; then all of it does, in its order.

    So does what belongs to a connection that its client has given up meanwhile, as from a network
    that repeats what it had lost.
    """

    def __init__(self, selection: Selection, seconds: float) -> None:
        super().__init__(selection)
        self._until = time.monotonic() + seconds
        self._ended = asyncio.Event()

    async def _hit_by(self, frame: Frame) -> Fate:
        remaining = self._until - time.monotonic()
        if remaining > 0 and not self._ended.is_set():
            self.seen.note("silenced", frame)
            try:
                await asyncio.wait_for(self._ended.wait(), remaining)
            except asyncio.TimeoutError:
                self.seen.over = True
        return Fate.PASS

    def end(self) -> None:
        self._ended.set()


class Cut(Rule):
    """The connection ends at a request, before it is handed on; or in place of its answer."""

    async def _hit_by(self, frame: Frame) -> Fate:
        self.seen.note("cut", frame)
        self.seen.over = bool(self.selection.times) and self._hit >= self.selection.times
        return Fate.CUT


class Rules:
    """Those that hold now, by their number."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._number = 0

    def add(self, rule: Rule) -> int:
        self._number += 1
        self._rules[self._number] = rule
        return self._number

    def __getitem__(self, number: int) -> Rule:
        return self._rules[number]

    def remove(self, number: int) -> None:
        self._rules.pop(number).end()

    async def apply(self, frame: Frame) -> Fate:
        """Return what becomes of a frame, after all delays."""
        for rule in list(self._rules.values()):
            fate = await rule.apply(frame)
            if fate is not Fate.PASS:
                return fate
        return Fate.PASS
