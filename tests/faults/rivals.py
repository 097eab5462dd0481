"""Two resolvers on the same topics: one that was thought dead, and one from another home."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import replace

from .doomed import Doom
from .fault import Done
from .fault_error import FaultError
from .kills import restart_broker
from .points import RESOLVE_POINTS
from .world import World

#: What a resolver exits with that was replaced.
_REPLACED = 3


def zombie(world: World, chance: random.Random) -> Done:
    """Halt the resolver, start a second one on its checkpoint, and let the old one go on.

    The second is a job by itself: two of `up` can't be in one home. But a cluster may start a job
    once more if its machine does not answer.
    """
    return _zombie(world, chance, None)


def zombie_past_killed_broker(world: World, chance: random.Random) -> Done:
    """Do the same, and kill Kafka while the old one sleeps."""
    return _zombie(world, chance, restart_broker)


def _zombie(world: World, chance: random.Random, meanwhile: Callable[[World], str] | None) -> Done:
    old = world.take_down("resolver")
    point = chance.choice([None, *RESOLVE_POINTS])
    if point is None:
        world.pause(chance.uniform(0, 2))
        old.hit("all", signal.SIGSTOP)
    else:
        world.doom(Doom(RESOLVE_POINTS[point], "all", signal.SIGSTOP))
        world.until(lambda: old.hit_at, "the resolver does not come to the point")
    world.mark()
    proof = meanwhile(world) if meanwhile else ""
    world.start_job()
    world.until(lambda: world.judge.recovery is not None, "the second delivers nothing")
    world.pause(chance.uniform(0, 3))
    old.hit("all", signal.SIGCONT)
    world.until(lambda: old.ended, "the old one goes on")
    old.end()
    if old.exit_status != _REPLACED:
        raise FaultError(f"the old one ended with {old.exit_status}: {old.last_words}")
    _see_none_restarted(world)
    world.stop("resolver")
    world.start_resolver()  # one that lands
    proofs = filter(None, [old.hit_at or old.last_words, proof])
    return Done(f"halted {point or 'at any moment'}", "; ".join(proofs))


def another_home(world: World, chance: random.Random) -> Done:
    """Start a resolver in another home, which is refused; with --rebuild it takes over."""
    homes = ("first", "second")
    other = homes[world.kept.resolver == homes[0]]
    world.pause(chance.uniform(0, 1))
    refused = world.another_resolver(home=world.home / other)
    world.until(lambda: refused.ended, "the second resolver is not refused")
    if refused.exit_status != 1 or "--rebuild" not in refused.last_words:
        raise FaultError(f"refused with {refused.exit_status}: {refused.last_words}")
    world.mark()
    world.until(lambda: world.judge.recovery is not None, "the first delivers no more")
    _see_none_restarted(world)
    first = world.take_down("resolver")
    world.keep(replace(world.kept, resolver=other))
    world.start_resolver("--rebuild")
    world.until(lambda: first.ended, "the first resolver goes on")
    world.mark()
    first.end()
    if first.exit_status != _REPLACED:
        raise FaultError(f"the first ended with {first.exit_status}: {first.last_words}")
    return Done("refused, then --rebuild", refused.last_words)


def _see_none_restarted(world: World) -> None:
    """See that the rightful resolver has not ended: the world would have started it again."""
    if world.restarts:
        raise FaultError(f"it ended the one that it must not: {world.restarts[-1]}")
