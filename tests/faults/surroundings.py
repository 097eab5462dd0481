"""What changes around the resolver: settings, Kafka's clock, the room on its disk."""

from __future__ import annotations

import random
from dataclasses import replace

from .clock import clock, set_clock
from .disk import SmallDisk
from .doomed import Doom
from .fault import Done
from .fault_error import FaultError
from .killed import see_dead, see_killed
from .load import IMMUNITY_SECONDS
from .points import RESOLVE_POINTS
from .process import Victim
from .world import World
from .world_kind import SHORTENED

#: Most seconds that Kafka's clock goes ahead, all steps together, and back from there. Between any
#: two steps it is less than an hour: real topics refuse what is stamped further ahead
#: (message.timestamp.after.max.ms), and its transaction ends as undeliverable. Back it goes less
#: than `broker_clock_skew_ms`, which the audit allows for.
_AHEAD_SECONDS = 1_700
_BACK_SECONDS = 500
#: Most seconds of a step ahead that is undone: until the clock is there again, nothing is asked
#: again, and the round waits.
_MISSED_SECONDS = 60
_LEAST_SECONDS = 20
_NEAR_SECONDS = 9
_STEPPED_SECONDS = 5.0
#: Most characters of the line about a full disk.
_LINE_LENGTH = 300


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
    """Return settings by which the world is audited as by those before.

    So the limit of checks stays, which each discard must have reached. The number of checks that
    fit into a batch changes a batch's decisions as much. The time-out is at most the least
    immunity: otherwise an end could be late by one and in time by the other. It is at least the
    first time-out, by which the audit judges early checks. The audit asks when a discard's checks
    were over only where an end came, and no discarded message of the load has an end.
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

    It stays further ahead, or goes far back or a little ahead for some seconds.
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
    error_line = resolver.first_match(r"(.*No space left on device.*)")
    if not error_line:
        raise FaultError(f"the disk was full, and it said: {resolver.last_words}")
    resolver.end()
    world.start_resolver()
    seen_from_home = error_line.replace(f"{world.home.parent}/", "")  # before a path is cut
    return Done("full until it failed", seen_from_home[:_LINE_LENGTH])


def _has_failed(resolver: Victim, disk: SmallDisk) -> bool:
    disk.fill()  # what it removes meanwhile is no room for it
    return resolver.ended
