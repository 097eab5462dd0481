"""The plan of a campaign: from a seed the same rounds, in the same order, in the same worlds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from . import combined, kills, points, rivals, stops, surroundings
from .damage import (
    damaged,
    files,
    lose,
    named,
    newest,
    restored,
    state,
    tear,
    truncate,
    unreadable_rows,
)
from .fault import Fault
from .scenery import Scenery

#: How many rounds one world sees before it is audited and the next one begins.
_ROUNDS_PER_WORLD = 40
#: The same in a short campaign, where one of 40 would be audited at its very end.
_ROUNDS_PER_MIXED_WORLD = 20
_SPOILS = (truncate, tear, lose)

_SCENERIES = {
    "disk": Scenery(small_disk=True),
    "clock": Scenery(own_clock=True),
}


@dataclass(frozen=True)
class Planned:
    """A fault and how many rounds a whole campaign has of it, in the worlds of its group."""

    group: str
    fault: Fault
    rounds: int


def _at_points(what: str, kill: Callable[[str], Fault], rounds: int) -> dict[str, Planned]:
    return {
        f"kill {what} {point}": Planned("kills", kill(pattern), rounds)
        for point, pattern in points.RESOLVE_POINTS.items()
    }


def _damages() -> dict[str, Planned]:
    """Return each way in which files of the resolver's home may be damaged."""
    faults: dict[str, Planned] = {}
    for job, spark in (("resolve", "checkpoints/resolve/spark"), ("land", "checkpoints/land")):
        for what in ("offsets", "commits"):
            for spoil in _SPOILS:
                fault = damaged(newest(f"{spark}/{what}"), spoil)
                faults[f"{spoil.__name__} {job}'s last of {what}"] = Planned("damage", fault, 2)
        for spoil in (truncate, lose):
            fault = damaged(named(f"{spark}/metadata"), spoil)
            faults[f"{spoil.__name__} {job}'s metadata"] = Planned("damage", fault, 2)
        fault = damaged(named(f"checkpoints/{job}"), lose)
        faults[f"lose {job}'s checkpoint"] = Planned("damage", fault, 4)
        faults[f"older copy of {job}'s checkpoint"] = Planned(
            "damage", restored(f"checkpoints/{job}", spark), 4
        )
    for spoil in _SPOILS:
        faults[f"{spoil.__name__} the last change of state"] = Planned(
            "damage", damaged(state, spoil), 2
        )
        log = damaged(newest("tables/*/_delta_log"), spoil)
        faults[f"{spoil.__name__} the last of a Delta log"] = Planned("damage", log, 2)
    for name, file in (("identity", "identity"), ("settings", "settings/0")):
        fault = damaged(named(f"checkpoints/resolve/{file}"), truncate)
        faults[f"truncate resolve's {name}"] = Planned("damage", fault, 2)
    for name in ("spark", "spark/state", "identity", "settings"):
        fault = damaged(named(f"checkpoints/resolve/{name}"), lose)
        faults[f"lose resolve's {name}"] = Planned("damage", fault, 2)
    for name, pattern in (
        ("resolve's checkpoint", "checkpoints/resolve/**/*"),
        ("land's checkpoint", "checkpoints/land/**/*"),
        ("a table's log", "tables/*/_delta_log/*"),
    ):
        fault = damaged(files(pattern), *_SPOILS)
        faults[f"spoil any file of {name}"] = Planned("damage", fault, 6)
    faults["spoil any file of a table's rows"] = Planned("damage", unreadable_rows(*_SPOILS), 6)
    return faults


FAULTS: dict[str, Planned] = {
    "kill resolver": Planned("kills", kills.kill_resolver, 200),
    **_at_points("resolver", kills.kill_resolver_at, 20),
    "kill land between two tables": Planned(
        "kills", kills.kill_resolver_at(*points.BETWEEN_TABLES), 20
    ),
    "kill land between Delta and the checkpoint": Planned(
        "kills", kills.kill_resolver_at(points.LANDED), 20
    ),
    "kill agent": Planned("kills", kills.kill_agent, 20),
    "kill producers": Planned("kills", kills.kill_load, 20),
    "kill broker": Planned("kills", kills.kill_broker, 50),
    "kill several": Planned("kills", combined.kill_several, 20),
    **_at_points("resolver and broker", combined.kill_both_at, 5),
    "kill resolver while broker halted": Planned("kills", combined.kill_while_halted, 10),
    "kill resolver while broker down": Planned("kills", combined.kill_while_down, 10),
    "halt resolver": Planned("halts", stops.halt_resolver, 10),
    "halt resolver's JVM": Planned("halts", stops.halt_jvm, 5),
    "halt agent": Planned("halts", stops.halt("agent"), 5),
    "halt producers": Planned("halts", stops.halt("load"), 5),
    "halt broker": Planned("halts", stops.halt("broker"), 10),
    "zombie": Planned("zombies", rivals.zombie, 20),
    "zombie past killed broker": Planned("zombies", rivals.zombie_past_killed_broker, 10),
    "another home": Planned("homes", rivals.another_home, 10),
    "other settings": Planned("homes", surroundings.change_settings, 10),
    "step clock": Planned("clock", surroundings.step_clock, 10),
    "full disk": Planned("disk", surroundings.fill_disk, 10),
    **_damages(),
    "kill workers": Planned("workers", kills.kill_workers, 10),
}


def scenery(fault: str) -> Scenery:
    """Return what the worlds of a fault are like."""
    return _SCENERIES.get(FAULTS[fault].group, Scenery())


@dataclass(frozen=True)
class Round:
    """A round: `number` says which of the plan, `world` where."""

    number: int
    world: str
    fault: str


def plan(seed: int, counts: Mapping[str, int]) -> list[Round]:
    """Return the rounds: of each fault so many, those of a group mixed, and few of all groups.

    The first world of each group comes before any second one: what breaks is found early.
    """
    is_short = sum(counts.values()) <= _ROUNDS_PER_WORLD
    groups: dict[str, list[str]] = {}
    for name, count in counts.items():
        # A world takes longer than a round: one is for all that need no other.
        is_mixed = is_short and scenery(name) == Scenery()
        group = "mixed" if is_mixed else FAULTS[name].group
        groups.setdefault(group, []).extend([name] * count)
    cut = sorted(enumerate(_cut(seed, groups)), key=lambda one: one[1].place)
    return [Round(number, f"{of.group}-{of.place}", of.fault) for number, of in cut]


#: What `--only` may name: a fault, or a group of them.
CHOICES = [*FAULTS, *dict.fromkeys(one.group for one in FAULTS.values())]


def counts(rounds: int | None, only: list[str]) -> dict[str, int]:
    """Return how many rounds each fault gets: its own, or its share of `rounds`, at least one.

    `only` has names of faults and of groups; empty for all.
    """
    chosen = {
        name: planned.rounds
        for name, planned in FAULTS.items()
        if not only or name in only or planned.group in only
    }
    if rounds is None:
        return chosen
    total = sum(chosen.values())
    return {name: max(1, count * rounds // total) for name, count in chosen.items()}


class _Cut(NamedTuple):
    """A round in the `place`th world of its group, from 1."""

    group: str
    place: int
    fault: str


def _cut(seed: int, groups: Mapping[str, list[str]]) -> Iterator[_Cut]:
    for group, faults in groups.items():
        size = _ROUNDS_PER_MIXED_WORLD if group == "mixed" else _ROUNDS_PER_WORLD
        random.Random(f"{seed} {group}").shuffle(faults)  # noqa: S311 - repeatable is what it is for
        for before, fault in enumerate(faults):
            yield _Cut(group, before // size + 1, fault)
