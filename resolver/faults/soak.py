"""A soak: one world, a steady rate for a long time, a fault now and then; does anything grow?"""

from __future__ import annotations

import random
import time
from pathlib import Path

from ..errors import FaultError
from .audit import audit
from .plan import FAULTS
from .samples import Samples
from .stopping import told_to_stop
from .world import Scenery, World

#: Those that leave the resolver its processes: it is their growth that is looked for.
_FAULTS = ("kill agent", "kill producers", "kill broker", "halt agent", "halt producers")
_FAULT_EVERY_SECONDS = 120.0
_SAMPLE_EVERY_SECONDS = 10.0


def soak(home: Path, minutes: float, rate: float, seed: int, lock: int) -> str:
    """Return a table of what grew and what did not; raises `FaultError` on any violation."""
    chance = random.Random(seed)  # noqa: S311 - repeatable is what it is for
    samples = Samples(home / "samples.jsonl")
    samples.begin()
    until = time.monotonic() + 60 * minutes
    with told_to_stop() as told, World(home / "soak", Scenery(), rate, lock, told) as world:
        while time.monotonic() < until:
            _sample_for(world, samples, _FAULT_EVERY_SECONDS)
            fault = chance.choice(_FAULTS)
            print(f"{fault}: {FAULTS[fault].fault(world, chance).what}", flush=True)
            world.settle(set(world.judge.open))
        world.drain()
        said = audit(world, "soak")
        verdict = world.judge.verdict
    if not verdict.holds or said.exit_code or world.restarts:
        raise FaultError(f"{verdict}; restarts: {world.restarts}; audit: {said}")
    settled = f"{verdict.settled:,} transactions, none lost, doubled or wrongly delivered."
    return f"{settled}\n\n{samples.table()}"


def _sample_for(world: World, samples: Samples, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        world.pause(_SAMPLE_EVERY_SECONDS)
        samples.take(world)
