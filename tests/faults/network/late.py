"""A late request: held back, its connection reset; when the repeat has come through, handed on.

It comes on its own old connection, which Kafka takes for alive, at a chosen moment of the next
transaction. Nothing is invented here: a network may deliver each of these frames when it does.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from .frames import END, NONE, error_of
from .rules import ANSWER, REQUEST, Fate, Frame, Rule, Selection

#: Seconds to wait for the answer to the late request, before its moment goes by.
_ANSWER_SECONDS = 5.0
#: Seconds after which held requests go on, all together. The moment may not come without them, and
#: one after the other a batch of many requests would take minutes.
_HELD_SECONDS = 3.0


@dataclass(frozen=True)
class Moment:
    """When a late request is handed on: at the `count`th frame of an API, before that goes on.

    The count begins with the answer to the first `after`, such as the end of its own transaction.
    With `after` empty it begins with the answer to the repeat. With `api` empty that answer is the
    moment. From the `holding_from`th on, requests of the API `holding` wait: the moment must find
    them missing.
    """

    api: str = ""
    side: str = ANSWER
    count: int = 1
    holding: str = ""
    holding_from: int = 1
    after: str = END


class Late(Rule):
    """Holds the first fitting request back, and hands it on at its moment."""

    def __init__(self, selection: Selection, moment: Moment) -> None:
        super().__init__(selection)
        self._moment = moment
        self._held: Frame | None = None
        self._is_repeated = False
        self._is_ended = False
        self._is_handed_on = False
        self._answered = asyncio.Event()
        self._held_until: float | None = None
        self._counts = {REQUEST: 0, ANSWER: 0, "holding": 0}

    async def apply(self, frame: Frame) -> Fate:
        """Carry out the next step of the story, if this frame is it."""
        if self._held is None:
            return self._hold(frame) if self._is_chosen(frame) else Fate.PASS
        if frame.link is self._held.link:
            self._take_answer(frame)
        elif frame.link.listener == self._held.link.listener and not self._is_handed_on:
            await (self._see_moment(frame) if self._is_ended else self._see_end(frame))
        return Fate.PASS

    def end(self) -> None:
        self._answered.set()
        if self._held is not None:
            self._held.link.let_go()

    def _hold(self, frame: Frame) -> Fate:
        self._held = frame
        self.seen.note("held", frame)
        return Fate.HOLD

    async def _see_end(self, frame: Frame) -> None:
        """See the repeat come through, and with it or after it what the moment is counted from."""
        api, own, last = frame.request.api, self.selection.apis, self._moment.after
        if frame.side != ANSWER or api not in (*own, last):
            return
        error = error_of(frame.request, frame.data)
        if api in own and not self._is_repeated:
            self.seen.note("repeated", frame, error=error)
            self._is_repeated = error == NONE
        if self._is_repeated and error == NONE and api == (last or api):
            self._is_ended = True
            if not self._moment.api:
                await self._hand_on(frame)

    async def _see_moment(self, frame: Frame) -> None:
        moment, api = self._moment, frame.request.api
        if frame.side == REQUEST and api == moment.holding:
            self._counts["holding"] += 1
            if self._counts["holding"] >= moment.holding_from:
                await self._wait_for_moment()
        if frame.side == moment.side and api == moment.api:
            self._counts[frame.side] += 1
            if self._counts[frame.side] == moment.count:
                await self._hand_on(frame)

    async def _hand_on(self, frame: Frame) -> None:
        if self._held is None:
            return
        self._is_handed_on = True
        moment = f"{'before' if frame.side == REQUEST else 'behind'} {frame.request.api}"
        self.seen.note("handed on", self._held, moment=moment, by=f"connection {frame.link.number}")
        self._held.link.send_late(self._held)
        await self._wait(_ANSWER_SECONDS)

    async def _wait_for_moment(self) -> None:
        if self._held_until is None:
            self._held_until = time.monotonic() + _HELD_SECONDS
        await self._wait(self._held_until - time.monotonic())

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._answered.wait(), seconds)
        except asyncio.TimeoutError:
            return

    def _take_answer(self, frame: Frame) -> None:
        held = self._held
        if held is None or frame.side != ANSWER or frame.request != held.request:
            return
        self.seen.note("answered", frame, error=error_of(frame.request, frame.data))
        self.seen.over = True
        self._answered.set()


def late(spec: dict[str, Any], selection: Selection) -> Late:
    """Make it from what the control was told."""
    return Late(selection, Moment(**spec))
