"""kill -9: of the resolver at any moment and at named points, and of its neighbours."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..broker.recovery import needs_recovery
from ..errors import FaultError
from .doomed import Doom
from .fault import Done, Fault
from .process import Victim
from .world import World

#: The log line of each point.
RESOLVE_POINTS = {
    "before deciding": r"^batch \d+: deciding",
    "before the Kafka transaction": r"^batch \d+: decided",
    "in the Kafka transaction": r"^batch \d+: \d+ records written",
    "after the Kafka transaction": r"^batch \d+: transaction committed",
    "before Spark's commit log": r"^batch \d+: done",
}
LAND_POINTS = {
    "between two tables": r"^land's batch \d+: \d+ rows in",
    "between Delta and the checkpoint": r"^land's batch \d+: landed",
}
#: Per cent: the machine, the driver's Python, Spark's JVM.
_VICTIMS = {"all": 60, "python": 20, "jvm": 20}
#: At a point, which Python would go on from if only the JVM were killed.
_VICTIMS_AT_A_POINT = {"all": 70, "python": 30}
_KILLED_WHILE_STARTING = 0.2
#: Land's first batch takes longer than most of the resolver's lives here: it is waited for.
_KILLED_WHILE_LANDING = 0.2
_LANDING_SECONDS = 10.0
_ATTEMPTS = 5


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


def kill_resolver_at(pattern: str) -> Fault:
    """Return the fault of being killed at a line of its log."""

    def kill(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 1))
        victim = _drawn(_VICTIMS_AT_A_POINT, chance)
        resolver = world.take_down("resolver")
        world.doom(Doom(pattern, victim))
        world.until(lambda: resolver.hit_at, "the resolver does not come to the point")
        see_dead(world, resolver, victim)
        world.start_resolver()
        return Done(f"kill -9 of {victim}", resolver.hit_at)

    return kill


def kill_workers(world: World, chance: random.Random) -> Done:
    """Kill Spark's Python workers with what forks them: Spark tries again, or the resolver ends."""
    world.pause(chance.uniform(0, 2))
    if world.resolver is None:
        raise FaultError("there is no resolver")
    world.mark()
    count = world.resolver.hit("workers")
    if not count:
        raise FaultError("the resolver has no workers")
    return Done(f"kill -9 of {count} processes")


def kill(world: World, victim: str = "all") -> str:
    """Kill the resolver, or a part of it; return what shows that it was killed."""
    resolver = world.take_down("resolver")
    see_alive(resolver)
    count = resolver.hit(victim)
    see_dead(world, resolver, victim)
    return f"{count} processes hit, exit code {resolver.exit_status}"


def see_alive(resolver: Victim) -> None:
    """See that a resolver has not ended by itself."""
    if resolver.ended:
        raise FaultError(f"it ended before it was killed: {resolver.last_words}")


def see_dead(world: World, resolver: Victim, victim: str) -> None:
    """Count from now; return when it has ended, and if all of it was killed, all of it has.

    See too what it has left, unless Kafka is hit as well.
    """
    world.mark()
    world.until(lambda: resolver.ended, f"without its {victim} the resolver does not end")
    if victim == "all":
        resolver.end()
    if world.broker is not None:
        world.see_whole()


def kill_agent(world: World, chance: random.Random) -> Done:
    """Kill the agent, and start it again after a while."""
    world.pause(chance.uniform(0, 2))
    world.take_down("agent").end()
    world.mark()
    seconds = chance.uniform(0, 5)
    world.pause(seconds)
    world.start_agent()
    return Done(f"kill -9, down for {seconds:.1f} s")


def kill_load(world: World, chance: random.Random) -> Done:
    """Kill the producers, once more if they had nothing under way.

    What they had begun and not ended is left to the checks.
    """
    for _ in range(_ATTEMPTS):
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


def see_cut_short(world: World) -> str:
    """See that Kafka had no time to end in order: what it leaves behind then is not there."""
    if not needs_recovery(world.broker_home):
        raise FaultError("Kafka was not killed: it has ended in order")
    return "no mark of a clean shutdown"


def _drawn(shares: Mapping[str, int], chance: random.Random) -> str:
    (one,) = chance.choices(list(shares), list(shares.values()))
    return one
