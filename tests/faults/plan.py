"""The plan of a campaign: from a seed the same rounds, in the same order, in the same worlds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from resolver.spark.points import Point

from . import combined, kills, points, replicas, rivals, stops, surroundings
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
from .network.plan import planned as network_faults
from .scenery import Scenery

#: How many rounds one world sees before it is audited and the next one begins.
_ROUNDS_PER_WORLD = 40
#: The same in a short campaign, where one of 40 would be audited at its very end.
_ROUNDS_PER_MIXED_WORLD = 20
_SPOILS = (truncate, tear, lose)

_SCENERIES = {
    "disk": Scenery(small_disk=True),
    "clock": Scenery(own_clock=True),
    "late requests": Scenery(proxied=True, bare=True),
    "network": Scenery(proxied=True),
    "cluster": Scenery(cluster=True),
    "cut": Scenery(cluster=True),
    "fast": Scenery(fast=1),
    # A person decides about fast halves after a rebuild, and a rebuild is the remedy in these.
    "homes": Scenery(fast=0),
    "damage": Scenery(fast=0),
}


@dataclass(frozen=True)
class Planned:
    """A fault and how many rounds a whole campaign has of it, in the worlds of its group."""

    group: str
    fault: Fault
    rounds: int


def _at_points(what: str, kill: Callable[[Point], Fault], rounds: int) -> dict[str, Planned]:
    return {
        f"kill {what} {point}": Planned("kills", kill(at), rounds)
        for point, at in points.RESOLVE_POINTS.items()
    }


def _of_nodes(
    what: str, fault: Callable[[replicas.Draw], Fault], rounds: int
) -> dict[str, Planned]:
    return {
        f"{what} {name}": Planned("cluster", fault(draw), rounds)
        for name, draw in replicas.ROLES.items()
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


_FAST: dict[str, tuple[Fault, int]] = {
    "kill producers": (kills.kill_load, 60),
    # Longer than the immunity of their halves: these are asked about meanwhile.
    "halt producers": (stops.halt("load"), 60),
    "kill resolver": (kills.kill_resolver, 60),
    "kill agent": (kills.kill_agent, 10),
    "kill broker": (kills.kill_broker, 40),
    "halt broker": (stops.halt("broker"), 20),
    "kill several": (combined.kill_several, 20),
    "zombie": (rivals.zombie, 30),
}

FAULTS: dict[str, Planned] = {
    "kill resolver": Planned("kills", kills.kill_resolver, 200),
    **_at_points("resolver", kills.kill_resolver_at, 20),
    "kill land between two tables": Planned(
        "kills", kills.kill_resolver_at(Point.IN_TABLE, points.BETWEEN_TABLES), 20
    ),
    "kill land between Delta and the checkpoint": Planned(
        "kills", kills.kill_resolver_at(Point.LANDED), 20
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
    **{f"{name}, all commits fast": Planned("fast", *given) for name, given in _FAST.items()},
    "another home": Planned("homes", rivals.another_home, 10),
    "other settings": Planned("homes", surroundings.change_settings, 10),
    "step clock": Planned("clock", surroundings.step_clock, 10),
    "full disk": Planned("disk", surroundings.fill_disk, 10),
    **_damages(),
    "kill workers": Planned("workers", kills.kill_workers, 10),
    **{
        name: Planned(group, fault, rounds)
        for name, (group, fault, rounds) in network_faults().items()
    },
    **_of_nodes("kill", replicas.kill_node, 10),
    **_of_nodes("power loss of", replicas.take_power, 4),
    "halt a node": Planned("cluster", replicas.halt_node, 10),
    "restart nodes in turn": Planned("cluster", replicas.restart_in_turn, 5),
    "a node away for a minute": Planned("cluster", replicas.leave_for_a_minute, 5),
    "topic without a leader": Planned("cluster", replicas.leave_alone, 5),
    "cut off a node": Planned("cut", replicas.cut_off, 20),
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
