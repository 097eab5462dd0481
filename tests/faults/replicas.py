"""Faults of a cluster of three: its leaders and coordinators die, halt, are cut off, lose power."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from resolver.protocol import Names

from .cluster import NODES, Cluster, offsets_of, transactions_of
from .doomed import Doom
from .fault import Done, Fault
from .fault_error import FaultError
from .load import ALONE, PARTITIONS, TOPICS
from .node import Node
from .points import RESOLVE_POINTS
from .power import lose_power
from .world import LONELY, World

_NAMES = Names()
#: How often a node is hit at a named point of the resolver's batch, not at any moment.
_AT_A_POINT = 0.5
#: Kafka takes a node that is silent for gone after nine seconds.
_SILENT_SECONDS = (12.0, 20.0)
_CUT_SECONDS = (20.0, 40.0)
_AWAY_SECONDS = 60.0
_LEADERLESS_SECONDS = 90.0
#: How often a node that has lost power is back before Kafka has noticed that it was away.
_BACK_AT_ONCE = 0.5
#: Between two looks for who leads.
_LOOK_SECONDS = 0.5


class Role(NamedTuple):
    """What a node does as the leader of a partition."""

    what: str
    topic: str
    partition: int


def half_leader(chance: random.Random) -> Role:
    """Return the role of leading a partition of the half topic."""
    return _leader(_NAMES.half, chance)


def op_leader(chance: random.Random) -> Role:
    """Return the role of leading a partition of the op topic."""
    return _leader(_NAMES.op, chance)


def real_leader(chance: random.Random) -> Role:
    """Return the role of leading a partition of a real topic."""
    return _leader(chance.choice(TOPICS), chance)


def resolvers_coordinator(_chance: random.Random) -> Role:
    """Return the role of coordinating the resolver's transactions."""
    return Role("resolver's coordinator", *transactions_of(_NAMES.resolver))


def markers_coordinator(_chance: random.Random) -> Role:
    """Return the role of keeping the marker."""
    return Role("marker's coordinator", *offsets_of(_NAMES.resolver))


def _leader(topic: str, chance: random.Random) -> Role:
    partition = chance.randrange(PARTITIONS)
    return Role(f"leader of {topic}-{partition}", topic, partition)


Draw = Callable[[random.Random], Role]
#: Each kind of role, by the name that the faults have of it.
ROLES: dict[str, Draw] = {
    "half leader": half_leader,
    "op leader": op_leader,
    "real leader": real_leader,
    "resolver's coordinator": resolvers_coordinator,
    "marker's coordinator": markers_coordinator,
}


def kill_node(draw: Draw) -> Fault:
    """Return the fault of a node that is killed for what it does, until others do that."""

    def kill(world: World, chance: random.Random) -> Done:
        role = draw(chance)
        node, proof = _hit(world, role, chance)
        moved = _await_moved(world, role, node)
        _bring_back(world, node)
        return Done(f"kill -9 of the {role.what}", f"{proof}; {moved}")

    return kill


def halt_node(world: World, chance: random.Random) -> Done:
    """Halt a node for longer than Kafka waits for it; its connections stay, and are silent."""
    role = _any_role(chance)
    node = _node(world, role)
    node.halt()
    world.mark()
    world.until(lambda: node.is_halted, "the node can't be halted")
    since = time.monotonic()
    moved = _await_moved(world, role, node)
    world.pause(chance.uniform(*_SILENT_SECONDS) - (time.monotonic() - since))
    node.go_on()
    _await_whole(world)
    return Done(f"SIGSTOP of the {role.what}", f"node {node.number} halted; {moved}")


def cut_off(world: World, chance: random.Random) -> Done:
    """Cut a node off from the other two, which elect others; clients still reach all three.

    Recovery is not awaited: a client that asks only the node that is cut off hears nothing new.
    """
    role = _any_role(chance)
    node, links = _node(world, role), _cluster(world).links
    if links is None:
        raise AssertionError("this world's nodes can't be cut off")
    links.cut(node.number)
    world.mark()
    since = time.monotonic()
    try:
        moved = _await_other(world, role, node)
        seconds = chance.uniform(*_CUT_SECONDS)
        world.pause(seconds - (time.monotonic() - since))
    finally:
        links.heal(node.number)
    _await_whole(world)
    return Done(f"{role.what} cut off, {seconds:.0f} s", f"node {node.number} cut off; {moved}")


def restart_in_turn(world: World, _chance: random.Random) -> Done:
    """Stop each node in order and start it again, one after the other, as for an upgrade."""
    proofs: list[str] = []
    for number in NODES:
        node = _cluster(world).nodes[number]
        node.end(signal.SIGTERM)
        if not proofs:
            world.mark()
        proofs.append(f"node {number}: {_see_ended(world, node, signal.SIGTERM)}")
        _bring_back(world, node)
    return Done("each stopped and started", "; ".join(proofs))


def leave_for_a_minute(world: World, chance: random.Random) -> Done:
    """Let a node be away for a minute: it was killed, or stopped in order."""
    role, by = _any_role(chance), chance.choice([signal.SIGKILL, signal.SIGTERM])
    node = _node(world, role)
    node.end(by)
    world.mark()
    since = time.monotonic()
    proof = f"node {node.number}: {_see_ended(world, node, by)}"
    moved = _await_moved(world, role, node)
    world.pause(_AWAY_SECONDS - (time.monotonic() - since))
    _bring_back(world, node)
    return Done(f"the {role.what} away for a minute", f"{proof}; {moved}")


def leave_alone(world: World, _chance: random.Random) -> Done:
    """Let a real topic have no leader: the one node that has it is stopped; others must flow."""
    cluster = _cluster(world)
    node = cluster.nodes[LONELY]
    world.stop("load")
    world.start_load("--also", ALONE)
    world.until(lambda: ALONE in world.judge.topics, f"nothing comes to {ALONE}")
    node.end(signal.SIGTERM)
    world.mark()
    since = time.monotonic()
    ended = _see_ended(world, node, signal.SIGTERM)
    world.until(lambda: cluster.leader(ALONE, 0) < 0, f"{ALONE} still has a leader")
    world.pause(_LEADERLESS_SECONDS - (time.monotonic() - since))
    _bring_back(world, node)
    world.stop("load")
    world.start_load()
    return Done(f"{ALONE} without a leader", f"node {LONELY}: {ended}; no leader of {ALONE}-0")


def take_power(draw: Draw) -> Fault:
    """Return the fault of a node that loses power: what was not on its disk is gone."""

    def take(world: World, chance: random.Random) -> Done:
        role = draw(chance)
        node, proof = _hit(world, role, chance)
        cuts = lose_power(node.home, chance)
        if not cuts:
            raise FaultError("the node had everything on its disk")
        lost = sum(cut.before - cut.after for cut in cuts)
        proof += f"; {len(cuts)} logs cut, {lost:,} bytes lost"
        if chance.random() < _BACK_AT_ONCE:
            _bring_back(world, node)
            when = "back at once"
        else:
            proof += f"; {_await_moved(world, role, node)}"
            _bring_back(world, node)
            when = "back when others had taken over"
        return Done(f"power loss of the {role.what}, {when}", proof)

    return take


def _hit(world: World, role: Role, chance: random.Random) -> tuple[Node, str]:
    """Kill the node of a role, at any moment or at a point of a batch; return what shows it."""
    node = _node(world, role)
    hit_line = ""
    if chance.random() < _AT_A_POINT:
        hit_line = f"{_hit_at_point(world, node, chance)}; "
    else:
        world.pause(chance.uniform(0, 2))
        node.end(signal.SIGKILL)
    world.mark()
    return node, f"{hit_line}node {node.number}: {_see_ended(world, node, signal.SIGKILL)}"


def _hit_at_point(world: World, node: Node, chance: random.Random) -> str:
    """Let the resolver's log kill the node; return the line."""
    resolver = world.resolver
    if resolver is None:
        raise FaultError("there is no resolver")
    before = len(resolver.hits)
    point = chance.choice(list(RESOLVE_POINTS.values()))
    world.doom(Doom(point, "none", others=[node.doom()]))
    world.until(lambda: len(resolver.hits) > before, "the resolver does not come to the point")
    return resolver.hit_at


def _see_ended(world: World, node: Node, by: int) -> str:
    world.until(lambda: not node.is_up, f"node {node.number} does not end")
    return node.see_ended(by)


def _await_moved(world: World, role: Role, node: Node) -> str:
    """Wait until all flows without a node; return who does now what it did, and since when."""
    moved = _await_other(world, role, node)
    world.until(lambda: world.judge.recovery is not None, "nothing flows without it")
    return moved


def _await_other(world: World, role: Role, node: Node) -> str:
    since, leaders = time.monotonic(), [node.number]

    def is_moved() -> bool:
        world.pause(_LOOK_SECONDS)
        leaders.append(_leads(world, role, besides=node.number))
        return leaders[-1] not in (node.number, -1)

    world.until(is_moved, f"there is no other {role.what}")
    return f"{role.what}: node {leaders[-1]} after {time.monotonic() - since:.1f} s"


def _bring_back(world: World, node: Node) -> None:
    node.launch()
    _await_whole(world)


def _await_whole(world: World) -> None:
    world.until(_cluster(world).is_whole, "not all replicas come in sync")


def _any_role(chance: random.Random) -> Role:
    return ROLES[chance.choice(list(ROLES))](chance)


def _leads(world: World, role: Role, besides: int = 0) -> int:
    return _cluster(world).leader(role.topic, role.partition, besides)


def _node(world: World, role: Role) -> Node:
    cluster = _cluster(world)
    number = _leads(world, role)
    if number not in cluster.nodes:
        raise FaultError(f"there is no {role.what}")
    return cluster.nodes[number]


def _cluster(world: World) -> Cluster:
    if world.cluster is None:
        raise AssertionError("this world has no cluster")
    return world.cluster
