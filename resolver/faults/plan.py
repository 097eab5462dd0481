"""The plan of a campaign: from a seed the same rounds, in the same order, in the same worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from . import kills, stops
from .fault import Fault

#: How many rounds one world sees before it is audited and the next one begins.
_ROUNDS_PER_WORLD = 40


@dataclass(frozen=True)
class Planned:
    """A fault and how many rounds a whole campaign has of it, in the worlds of its group."""

    group: str
    fault: Fault
    rounds: int


def _at(group: str, points: Mapping[str, str], rounds: int) -> dict[str, Planned]:
    return {
        f"kill {group} {point}": Planned("kills", kills.kill_resolver_at(pattern), rounds)
        for point, pattern in points.items()
    }


FAULTS: dict[str, Planned] = {
    "kill resolver": Planned("kills", kills.kill_resolver, 200),
    **_at("resolver", kills.RESOLVE_POINTS, 20),
    **_at("land", kills.LAND_POINTS, 20),
    "kill agent": Planned("kills", kills.kill_agent, 20),
    "kill producers": Planned("kills", kills.kill_load, 20),
    "kill broker": Planned("kafka", kills.kill_broker, 50),
    "kill several": Planned("kafka", kills.kill_several, 20),
    "halt resolver": Planned("halts", stops.halt_resolver, 10),
    "halt agent": Planned("halts", stops.halt("agent"), 5),
    "halt producers": Planned("halts", stops.halt("load"), 5),
    "halt broker": Planned("halts", stops.halt("broker"), 10),
}


@dataclass(frozen=True)
class Round:
    """A round: `number` says which of the campaign, `world` where."""

    number: int
    world: str
    fault: str


def plan(seed: int, counts: Mapping[str, int]) -> list[Round]:
    """Return the rounds: of each fault so many, those of a group mixed."""
    groups: dict[str, list[str]] = {}
    for name, count in counts.items():
        groups.setdefault(FAULTS[name].group, []).extend([name] * count)
    return [Round(number, world, fault) for number, (world, fault) in enumerate(_cut(seed, groups))]


def counts(rounds: int | None, only: list[str]) -> dict[str, int]:
    """Return how many rounds each fault gets: its own, or its share of `rounds`, at least one."""
    chosen = {name: FAULTS[name].rounds for name in only or FAULTS}
    if rounds is None:
        return chosen
    total = sum(chosen.values())
    return {name: max(1, count * rounds // total) for name, count in chosen.items()}


def _cut(seed: int, groups: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    for group, faults in groups.items():
        random.Random(f"{seed} {group}").shuffle(faults)  # noqa: S311 - repeatable is what it is for
        for place, fault in enumerate(faults):
            yield f"{group}-{place // _ROUNDS_PER_WORLD + 1}", fault
