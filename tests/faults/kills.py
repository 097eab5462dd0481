"""kill -9: of the resolver at any moment and at named points, and of its neighbours."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from resolver.spark.points import Point

from .doomed import Doom
from .fault import Done, Fault
from .fault_error import FaultError
from .killed import see_alive, see_cut_short, see_dead, see_killed
from .world import World

#: Per cent: the machine, the driver's Python, Spark's JVM.
_VICTIMS = {"all": 60, "python": 20, "jvm": 20}
#: The same at a point. The JVM is not killed alone: Python would go on from there.
_VICTIMS_AT_A_POINT = {"all": 70, "python": 30}
_KILLED_WHILE_STARTING = 0.2
#: Share of kills that wait for land's first batch: it takes longer than most resolvers live here.
_KILLED_WHILE_LANDING = 0.2
_LANDING_SECONDS = 10.0
_ATTEMPTS = 5
#: Most ms after the line in which a batch is decided: Spark's workers are at work then.
_DECIDING_MS = 200.0


def kill_resolver(world: World, chance: random.Random) -> Done:
    """Kill it at any moment, now and then once more while it starts, or when it has landed."""
    world.pause(chance.uniform(0, 2))
    victim, draw = _drawn(_VICTIMS, chance), chance.random()
    what = f"kill -9 of {victim}"
    if draw > 1 - _KILLED_WHILE_LANDING:
        world.until(lambda: world.resolver is not None and world.resolver.ready, "nothing lands")
        seconds = chance.uniform(0, _LANDING_SECONDS)
        world.pause(seconds)
        what += f", {seconds:.1f} s after it had landed"
    proof = kill(world, victim)
    if draw < _KILLED_WHILE_STARTING:
        world.start_resolver()
        seconds = chance.uniform(0, 8)
        world.pause(seconds)
        kill(world)
        what += f", and again {seconds:.1f} s after its start"
    world.start_resolver()
    return Done(what, proof)


def kill_resolver_at(point: Point, tables: Sequence[str | None] = (None,)) -> Fault:
    """Return the fault of being killed at a point of its log, of one of the tables if given."""

    def kill(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 1))
        victim = _drawn(_VICTIMS_AT_A_POINT, chance)
        resolver = world.take_down("resolver")
        world.doom(Doom(point, victim, table=chance.choice(tables)))
        world.until(lambda: resolver.hit_at, "the resolver does not come to the point")
        see_dead(world, resolver, victim)
        proof = f"{resolver.hit_at}; {see_killed(resolver)}"
        world.start_resolver()
        return Done(f"kill -9 of {victim}", proof)

    return kill


def kill_workers(world: World, chance: random.Random) -> Done:
    """Kill Spark's Python workers with what forks them, while a batch is decided.

    Spark tries again, or the resolver ends.
    """
    resolver = world.resolver
    if resolver is None:
        raise FaultError("there is no resolver")
    workers = resolver.workers()
    if not workers:
        raise FaultError("the resolver has no workers")
    after_ms, before = chance.uniform(0, _DECIDING_MS), len(resolver.hits)
    others = [worker.pid for worker in workers]
    world.doom(Doom(Point.DECIDING, "none", others=others, after_ms=after_ms))
    world.until(lambda: len(resolver.hits) > before, "the resolver does not come to the point")
    world.mark()
    world.until(lambda: not {*workers} & {*resolver.members()}, "the workers don't die")
    return Done(f"kill -9 of {len(workers)} processes, {after_ms:.0f} ms after", resolver.hit_at)


def kill(world: World, victim: str = "all") -> str:
    """Kill the resolver, or a part of it; return what shows that it was killed."""
    resolver = world.take_down("resolver")
    see_alive(resolver)
    count = resolver.hit(victim)
    see_dead(world, resolver, victim)
    # Of Spark's JVM only: then the Python ends by itself.
    how = f"exit code {resolver.exit_status}" if victim == "jvm" else see_killed(resolver)
    return f"{count} processes hit, {how}"


def kill_agent(world: World, chance: random.Random) -> Done:
    """Kill the agent, and start it again after a while."""
    world.pause(chance.uniform(0, 2))
    agent = world.take_down("agent")
    agent.end()
    world.mark(by_check=True)
    proof = see_killed(agent)
    seconds = chance.uniform(0, 5)
    world.pause(seconds)
    world.start_agent()
    return Done(f"kill -9, down for {seconds:.1f} s", proof)


def kill_load(world: World, chance: random.Random) -> Done:
    """Kill the producers, once more if they had nothing under way.

    What they had begun and not ended is left to the checks.
    """
    for _ in range(_ATTEMPTS):
        # Let it start first: on a busy machine it takes longer than the pause.
        world.until(lambda: world.load is not None and world.load.ready, "the load does not start")
        world.pause(chance.uniform(0, 2))
        world.take_down("load").end()
        world.mark()
        world.pause(0.2)
        between = len(world.judge.undecided())
        world.start_load()
        if between:
            return Done("kill -9", f"{between} between half and op")
    raise FaultError(f"killed {_ATTEMPTS} times, and nothing was under way")


def kill_broker(world: World, chance: random.Random) -> Done:
    """Kill Kafka, and start it again."""
    world.pause(chance.uniform(0, 2))
    return Done("kill -9", restart_broker(world))


def restart_broker(world: World) -> str:
    """Kill Kafka and start it again; return what shows that it was killed."""
    world.take_down("broker").end()
    world.mark()
    proof = see_cut_short(world)
    world.start_broker()
    return proof


def _drawn(shares: Mapping[str, int], chance: random.Random) -> str:
    (choice,) = chance.choices(list(shares), list(shares.values()))
    return choice
