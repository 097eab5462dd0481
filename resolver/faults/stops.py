"""SIGSTOP for longer than anybody waits, then SIGCONT."""

from __future__ import annotations

import random
import signal

from .doomed import Doom
from .fault import Done, Fault
from .kills import RESOLVE_POINTS
from .world import SHORTENED, World

#: Kafka looks every ten seconds for transactions that have timed out.
_ABORTED_SECONDS = SHORTENED["kafka_transaction_timeout_ms"] / 1_000 + 11
_SECONDS = (5.0, 10.0)


def halt_resolver(world: World, chance: random.Random) -> Done:
    """Halt it, its JVM or its Python in a Kafka transaction, which times out if nobody ends it.

    Where the JVM alone is halted, Python may end it in time.
    """
    assert world.resolver is not None  # noqa: S101 - a world has one between two rounds
    victim = chance.choice(["all", "jvm", "python"])
    resolver = world.resolver
    before = len(resolver.hits)
    world.doom(Doom(RESOLVE_POINTS["in the Kafka transaction"], victim, signal.SIGSTOP))
    world.until(lambda: len(resolver.hits) > before, "the resolver does not come to the point")
    world.pause(_ABORTED_SECONDS)
    resolver.hit(victim, signal.SIGCONT)
    world.mark()
    return Done(f"SIGSTOP of {victim} for {_ABORTED_SECONDS:.0f} s", resolver.hit_at)


def halt(name: str) -> Fault:
    """Return the fault of another process that is halted for a while."""

    def fault(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 2))
        process = getattr(world, name)
        seconds = chance.uniform(*_SECONDS)
        process.hit("all", signal.SIGSTOP)
        world.pause(seconds)
        process.hit("all", signal.SIGCONT)
        world.mark()
        return Done(f"SIGSTOP for {seconds:.1f} s")

    return fault
