"""What changes around the resolver: settings, Kafka's clock, the room on its disk."""

from __future__ import annotations

import random
from dataclasses import replace

from resolver.errors import FaultError

from .clock import clock, set_clock
from .disk import SmallDisk
from .doomed import Doom
from .fault import Done
from .killed import see_dead, see_killed
from .load import IMMUNITY_SECONDS
from .points import RESOLVE_POINTS
from .process import Victim
from .scenery import SHORTENED
from .world import World

#: How far Kafka's clock goes ahead, all steps together, and how far back from there. From one to
#: another it is less than an hour: what is stamped further ahead real topics refuse
#: (message.timestamp.after.max.ms), and its transaction ends as undeliverable. Back it goes less
#: than `broker_clock_skew_ms`, which the audit allows for.
_AHEAD_SECONDS = 1_700
_BACK_SECONDS = 500
#: What was asked is not asked again until the clock is where it has been: so long a round waits.
_MISSED_SECONDS = 60
_LEAST_SECONDS = 20
_NEAR_SECONDS = 9
_STEPPED_SECONDS = 5.0
#: Of what is said about a full disk, in characters.
_SAID = 300


def change_settings(world: World, chance: random.Random) -> Done:
    """Kill the resolver with a batch planned, and go on with other settings."""
    point = chance.choice(list(RESOLVE_POINTS))
    resolver = world.take_down("resolver")
    world.doom(Doom(RESOLVE_POINTS[point]))
    world.until(lambda: resolver.hit_at, "the resolver does not come to the point")
    see_dead(world, resolver, "all")
    proof = f"{resolver.hit_at}; {see_killed(resolver)}"
    world.keep(replace(world.kept, settings=other_settings(chance)))
    world.start_resolver()
    return Done(str(world.kept.settings), proof)


def other_settings(chance: random.Random) -> dict[str, int]:
    """Return settings such that the world is audited alike by these and by those before.

    So the limit of checks, which each discard must have reached, stays; how many fit into a batch
    changes as much in what a batch decides. A time-out is not above any immunity, lest an end be
    late by one and not by the other, nor below the first one, by which the audit says which checks
    came too early. By when a discard's checks were over is asked only where an end came, and of
    what the load lets be discarded none ever does.
    """
    shortest = SHORTENED["transaction_timeout_ms"]
    return {
        "transaction_timeout_ms": chance.randrange(shortest, 1_000 * IMMUNITY_SECONDS),
        "transaction_check_interval_ms": chance.randrange(300, 1_000),
        "max_offsets_per_trigger": chance.randrange(100, 80_000),
        "max_checks_per_batch": chance.randrange(4, 5_000),
        "kafka_transaction_timeout_ms": chance.randrange(2_000, 60_000),
    }


def step_clock(world: World, chance: random.Random) -> Done:
    """Step Kafka's clock, by which it stamps records, and see it in what it stores.

    To stay there, further ahead; or for some seconds, far back or a little ahead.
    """
    world.pause(chance.uniform(0, 1))
    now = clock(world.home)
    ways = [
        [now - chance.randrange(_LEAST_SECONDS, _BACK_SECONDS), now],
        [now + chance.randrange(_LEAST_SECONDS, _MISSED_SECONDS), now],
    ]
    if now < _AHEAD_SECONDS - _LEAST_SECONDS:
        ways.append([chance.randrange(now + _LEAST_SECONDS, _AHEAD_SECONDS)])
    seen = [_step(world, seconds) for seconds in chance.choice(ways)]
    return Done(f"stepped from {now:+} s", f"halves stored {', '.join(seen)} ahead")


def _step(world: World, seconds: int) -> str:
    """Set Kafka's clock; return how far ahead a half was stored then."""
    set_clock(world.home, seconds)
    world.mark()
    near = range(seconds - _NEAR_SECONDS, seconds + _NEAR_SECONDS + 1)
    world.until(lambda: world.judge.ahead_seconds in near, "Kafka's clock does not step")
    seen = world.judge.ahead_seconds
    world.pause(_STEPPED_SECONDS)
    return f"{seen:+} s"


def fill_disk(world: World, chance: random.Random) -> Done:
    """Fill the resolver's disk until it fails for that, then make room and start it again."""
    if world.disk is None:
        raise AssertionError("this world has no disk of its own")
    disk = world.disk
    world.pause(chance.uniform(0, 2))
    resolver = world.take_down("resolver")
    try:
        world.until(lambda: _has_failed(resolver, disk), "a full disk does not end the resolver")
    finally:
        disk.make_room()
    world.mark()
    said = resolver.said(r"(.*No space left on device.*)")
    if not said:
        raise FaultError(f"the disk was full, and it said: {resolver.last_words}")
    resolver.end()
    world.start_resolver()
    seen_from_home = said.replace(f"{world.home.parent}/", "")  # before a path is cut
    return Done("full until it failed", seen_from_home[:_SAID])


def _has_failed(resolver: Victim, disk: SmallDisk) -> bool:
    disk.fill()  # what it removes meanwhile is no room for it
    return resolver.ended
