"""The faults of the network: their names, the group of worlds that each is in, and its rounds."""

from __future__ import annotations

from collections.abc import Iterator

from ..fault import Fault
from . import aimed, lines
from .listeners import PRODUCERS, RESOLVER
from .rules import ANSWER, REQUEST

_PlannedFault = tuple[str, Fault, int]
_BARE, _UP = "late requests", "network"
_SIDES = (RESOLVER, PRODUCERS)
#: Rounds of a silence, by its seconds: the longer the silence, the fewer rounds.
_SILENT_ROUNDS = {5: 4, 30: 2, 90: 1}


def network_faults() -> dict[str, _PlannedFault]:
    """Return each fault by its name."""
    return dict([*_late_requests(), *_lines()])


def _late_requests() -> Iterator[tuple[str, _PlannedFault]]:
    for window, moment in aimed.WINDOWS.items():
        for api in aimed.TEARING:
            name = f"late {api} {window}"
            yield f"bare delivery: {name}", (_BARE, aimed.late_in_bare(api, moment), 20)
            yield name, (_UP, aimed.late(api, moment), 4)
        for api in aimed.OTHERS:
            fault = aimed.late_in_bare(api, moment)
            yield f"bare delivery: late {api} {window}", (_BARE, fault, 5)
    yield "late Produce of producers", (_UP, aimed.late_half, 4)


def _lines() -> Iterator[tuple[str, _PlannedFault]]:
    for side in _SIDES:
        for api in lines.REQUESTS[side]:
            yield f"cut {side}: {api}", (_UP, lines.cut(side, api), 5)
        for way in (REQUEST, ANSWER):
            for seconds, rounds in _SILENT_ROUNDS.items():
                name = f"silence {side}: {way}s for {seconds} s"
                yield name, (_UP, lines.silence(side, way, seconds), rounds)
        yield f"slow {side}", (_UP, lines.slow(side), 4)
        yield f"cut {side}: 1 % of requests", (_UP, lines.cut_some(side), 6)
    for which, milliseconds in lines.SOCKET_TIMEOUTS_MS.items():
        yield f"{which} socket time-out", (_UP, lines.socket_timeout(milliseconds), 4)
