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
from .network.plan import network_faults
from .world_kind import WorldKind

#: How many rounds one world sees before it is audited and the next one begins.
_ROUNDS_PER_WORLD = 40
#: The same in a short campaign, where one of 40 would be audited at its very end.
_ROUNDS_PER_MIXED_WORLD = 20
_SPOILS = (truncate, tear, lose)

_WORLD_KINDS = {
    "disk": WorldKind(small_disk=True),
    "clock": WorldKind(own_clock=True),
    "late requests": WorldKind(proxied=True, bare=True),
    "network": WorldKind(proxied=True),
    "cluster": WorldKind(cluster=True),
    "cut": WorldKind(cluster=True),
    "fast": WorldKind(fast=1),
    # A person decides about fast halves after a rebuild, and a rebuild is the remedy in these.
    "homes": WorldKind(fast=0),
    "damage": WorldKind(fast=0),
}


@dataclass(frozen=True)
class PlannedFault:
    """A fault and how many rounds a whole campaign has of it, in the worlds of its group."""

    group: str
    fault: Fault
    rounds: int


def _at_points(what: str, kill: Callable[[Point], Fault], rounds: int) -> dict[str, PlannedFault]:
    return {
        f"kill {what} {name}": PlannedFault("kills", kill(point), rounds)
        for name, point in points.RESOLVE_POINTS.items()
    }


def _of_nodes(
    what: str, fault: Callable[[replicas.Draw], Fault], rounds: int
) -> dict[str, PlannedFault]:
    return {
        f"{what} {name}": PlannedFault("cluster", fault(draw), rounds)
        for name, draw in replicas.ROLES.items()
    }


def _damages() -> dict[str, PlannedFault]:
    """Return each way in which files of the resolver's home may be damaged."""
    faults: dict[str, PlannedFault] = {}
    for job, spark in (("resolve", "checkpoints/resolve/spark"), ("land", "checkpoints/land")):
        for what in ("offsets", "commits"):
            for spoil in _SPOILS:
                fault = damaged(newest(f"{spark}/{what}"), spoil)
                faults[f"{spoil.__name__} {job}'s last of {what}"] = PlannedFault(
                    "damage", fault, 2
                )
        for spoil in (truncate, lose):
            fault = damaged(named(f"{spark}/metadata"), spoil)
            faults[f"{spoil.__name__} {job}'s metadata"] = PlannedFault("damage", fault, 2)
        fault = damaged(named(f"checkpoints/{job}"), lose)
        faults[f"lose {job}'s checkpoint"] = PlannedFault("damage", fault, 4)
        faults[f"older copy of {job}'s checkpoint"] = PlannedFault(
            "damage", restored(f"checkpoints/{job}", spark), 4
        )
    for spoil in _SPOILS:
        faults[f"{spoil.__name__} the last change of state"] = PlannedFault(
            "damage", damaged(state, spoil), 2
        )
        log = damaged(newest("tables/*/_delta_log"), spoil)
        faults[f"{spoil.__name__} the last of a Delta log"] = PlannedFault("damage", log, 2)
    for name, file in (("identity", "identity"), ("settings", "settings/0")):
        fault = damaged(named(f"checkpoints/resolve/{file}"), truncate)
        faults[f"truncate resolve's {name}"] = PlannedFault("damage", fault, 2)
    for name in ("spark", "spark/state", "identity", "settings"):
        fault = damaged(named(f"checkpoints/resolve/{name}"), lose)
        faults[f"lose resolve's {name}"] = PlannedFault("damage", fault, 2)
    for name, pattern in (
        ("resolve's checkpoint", "checkpoints/resolve/**/*"),
        ("land's checkpoint", "checkpoints/land/**/*"),
        ("a table's log", "tables/*/_delta_log/*"),
    ):
        fault = damaged(files(pattern), *_SPOILS)
        faults[f"spoil any file of {name}"] = PlannedFault("damage", fault, 6)
    faults["spoil any file of a table's rows"] = PlannedFault(
        "damage", unreadable_rows(*_SPOILS), 6
    )
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

FAULTS: dict[str, PlannedFault] = {
    "kill resolver": PlannedFault("kills", kills.kill_resolver, 200),
    **_at_points("resolver", kills.kill_resolver_at, 20),
    "kill land between two tables": PlannedFault(
        "kills", kills.kill_resolver_at(Point.IN_TABLE, points.BETWEEN_TABLES), 20
    ),
    "kill land between Delta and the checkpoint": PlannedFault(
        "kills", kills.kill_resolver_at(Point.LANDED), 20
    ),
    "kill agent": PlannedFault("kills", kills.kill_agent, 20),
    "kill producers": PlannedFault("kills", kills.kill_load, 20),
    "kill broker": PlannedFault("kills", kills.kill_broker, 50),
    "kill several": PlannedFault("kills", combined.kill_several, 20),
    **_at_points("resolver and broker", combined.kill_both_at, 5),
    "kill resolver while broker halted": PlannedFault("kills", combined.kill_while_halted, 10),
    "kill resolver while broker down": PlannedFault("kills", combined.kill_while_down, 10),
    "halt resolver": PlannedFault("halts", stops.halt_resolver, 10),
    "halt resolver's JVM": PlannedFault("halts", stops.halt_jvm, 5),
    "halt agent": PlannedFault("halts", stops.halt("agent"), 5),
    "halt producers": PlannedFault("halts", stops.halt("load"), 5),
    "halt broker": PlannedFault("halts", stops.halt("broker"), 10),
    "zombie": PlannedFault("zombies", rivals.zombie, 20),
    "zombie past killed broker": PlannedFault("zombies", rivals.zombie_past_killed_broker, 10),
    **{
        f"{name}, all commits fast": PlannedFault("fast", *fault_and_rounds)
        for name, fault_and_rounds in _FAST.items()
    },
    "another home": PlannedFault("homes", rivals.another_home, 10),
    "other settings": PlannedFault("homes", surroundings.change_settings, 10),
    "step clock": PlannedFault("clock", surroundings.step_clock, 10),
    "full disk": PlannedFault("disk", surroundings.fill_disk, 10),
    **_damages(),
    "kill workers": PlannedFault("workers", kills.kill_workers, 10),
    **{
        name: PlannedFault(group, fault, rounds)
        for name, (group, fault, rounds) in network_faults().items()
    },
    **_of_nodes("kill", replicas.kill_node, 10),
    **_of_nodes("power loss of", replicas.take_power, 4),
    "halt a node": PlannedFault("cluster", replicas.halt_node, 10),
    "restart nodes in turn": PlannedFault("cluster", replicas.restart_in_turn, 5),
    "a node away for a minute": PlannedFault("cluster", replicas.leave_for_a_minute, 5),
    "topic without a leader": PlannedFault("cluster", replicas.leave_alone, 5),
    "cut off a node": PlannedFault("cut", replicas.cut_off, 20),
}


def world_kind_of(fault: str) -> WorldKind:
    """Return the kind of the worlds of a fault."""
    return _WORLD_KINDS.get(FAULTS[fault].group, WorldKind())


@dataclass(frozen=True)
class Round:
    """A round: `number` says which of the plan, `world` where."""

    number: int
    world: str
    fault: str


def plan(seed: int, counts: Mapping[str, int]) -> list[Round]:
    """Return the rounds of each fault, mixed within a group.

    In a short campaign all groups that need no special world are mixed. The first world of each
    group comes before any second one: what breaks is found early.
    """
    is_short = sum(counts.values()) <= _ROUNDS_PER_WORLD
    groups: dict[str, list[str]] = {}
    for name, count in counts.items():
        # A world takes longer than a round: all faults that need no special one share it.
        is_mixed = is_short and world_kind_of(name) == WorldKind()
        group = "mixed" if is_mixed else FAULTS[name].group
        groups.setdefault(group, []).extend([name] * count)
    cut = sorted(enumerate(_cut(seed, groups)), key=lambda numbered: numbered[1].world_number)
    return [
        Round(number, f"{cut_round.group}-{cut_round.world_number}", cut_round.fault)
        for number, cut_round in cut
    ]


#: What `--only` may name: a fault, or a group of them.
CHOICES = [*FAULTS, *dict.fromkeys(planned.group for planned in FAULTS.values())]


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
    """A round, and the number of its world in its group, from 1."""

    group: str
    world_number: int
    fault: str


def _cut(seed: int, groups: Mapping[str, list[str]]) -> Iterator[_Cut]:
    for group, faults in groups.items():
        size = _ROUNDS_PER_MIXED_WORLD if group == "mixed" else _ROUNDS_PER_WORLD
        random.Random(f"{seed} {group}").shuffle(faults)  # noqa: S311 - repeatable is what it is for
        for before, fault in enumerate(faults):
            yield _Cut(group, before // size + 1, fault)
