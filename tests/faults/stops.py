"""SIGSTOP for longer than anybody waits, then SIGCONT."""

from __future__ import annotations

import random
import signal

import psutil

from resolver.spark.points import Point

from .doomed import Doom
from .fault import Done, Fault
from .fault_error import FaultError
from .process import Victim
from .world import World
from .world_kind import SHORTENED

#: Kafka looks every ten seconds for transactions that have timed out.
_ABORTED_SECONDS = SHORTENED["kafka_transaction_timeout_ms"] / 1_000 + 11
_SECONDS = (5.0, 10.0)
#: What the resolver says when Kafka has taken its transaction from it.
_TAKEN = r"(batch \d+ is not written yet: .*)"


def halt_resolver(world: World, chance: random.Random) -> Done:
    """Halt it, or its Python, in a Kafka transaction, which times out meanwhile."""
    victim = chance.choice(["all", "python"])
    resolver, hit_at = _halt_at_point(world, victim)
    before = resolver.all_matches(_TAKEN)
    _go_on(world, resolver, victim)
    world.until(
        lambda: resolver.all_matches(_TAKEN) != before or resolver.ended,
        "Kafka did not end the transaction of a halted resolver",
    )
    return Done(f"SIGSTOP of {victim} for {_ABORTED_SECONDS:.0f} s", hit_at)


def halt_jvm(world: World, chance: random.Random) -> Done:
    """Halt Spark's JVM in a Kafka transaction: Python may end that in time."""
    resolver, hit_at = _halt_at_point(world, "jvm")
    _go_on(world, resolver, "jvm")
    return Done(f"SIGSTOP of jvm for {_ABORTED_SECONDS:.0f} s", hit_at)


def _halt_at_point(world: World, victim: str) -> tuple[Victim, str]:
    resolver = world.resolver
    if resolver is None:
        raise FaultError("there is no resolver to halt")
    before = len(resolver.hits)
    world.doom(Doom(Point.WRITTEN, victim, signal.SIGSTOP))
    world.until(lambda: len(resolver.hits) > before, "the resolver does not come to the point")
    world.pause(_ABORTED_SECONDS)
    return resolver, resolver.hit_at


def _go_on(world: World, resolver: Victim, victim: str) -> None:
    resolver.hit(victim, signal.SIGCONT)
    world.mark()


def halt(name: str) -> Fault:
    """Return the fault of another process that is halted for a while."""

    def fault(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 2))
        process: Victim = getattr(world, name)
        seconds = chance.uniform(*_SECONDS)
        process.hit("all", signal.SIGSTOP)
        world.until(lambda: halted(process), f"{process.name} can't be halted", _SECONDS[0])
        world.pause(seconds)
        proof = f"halted: {', '.join(sorted(halted(process)))}"
        process.hit("all", signal.SIGCONT)
        world.mark(by_check=name == "agent")
        return Done(f"SIGSTOP for {seconds:.1f} s", proof)

    return fault


def halted(process: Victim) -> list[str]:
    """Return the programs that are halted; none unless all are."""
    members = process.members()
    if any(member.status() != psutil.STATUS_STOPPED for member in members):
        return []
    return [member.name() for member in members]
