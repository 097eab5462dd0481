"""A soak: one world, a steady rate for a long time, a fault now and then; does anything grow?"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from .audit import audit
from .fault_error import FaultError
from .kept import Kept
from .plan import FAULTS
from .samples import JVM_SETTINGS, Samples
from .stopping import told_to_stop
from .world import World
from .world_kind import WorldKind

#: Those that leave the resolver its processes: it is their growth that is looked for. After the
#: first third all processes stay, so that theirs is seen too.
_KILLS = ("kill agent", "kill producers", "kill broker")
_HALTS = ("halt agent", "halt producers", "halt broker")
_FAULT_EVERY_SECONDS = 120.0
_SAMPLE_EVERY_SECONDS = 10.0


def soak(home: Path, minutes: float, rate: float, seed: int, lock: int) -> str:
    """Return a table of what grew and what did not; raises `FaultError` on any violation."""
    chance = random.Random(seed)  # noqa: S311 - repeatable is what it is for
    samples = Samples(home / "samples.jsonl")
    samples.begin()
    shutil.rmtree(home / "soak", ignore_errors=True)
    with told_to_stop() as stop_requested:
        world = World(home / "soak", WorldKind(), rate, lock, stop_requested)
        world.keep(Kept(settings=JVM_SETTINGS))
        with world:
            lasted = _run_load(world, samples, chance, 60 * minutes)
            world.drain()
            audited = audit(world, "soak")
    verdict = world.judge.verdict
    if not verdict.holds or audited.exit_code or world.restarts:
        raise FaultError(f"{verdict}; restarts: {world.restarts}; audit: {audited}")
    if grown := samples.grown():
        raise FaultError(f"it grows: {'; '.join(grown)}\n\n{samples.table()}")
    settled = (
        f"{verdict.settled:,} transactions in {lasted / 60:.1f} minutes, "
        f"{verdict.settled / lasted:.0f} a second, none lost, doubled or wrongly delivered."
    )
    return f"{settled}\n\n{samples.table()}"


def _run_load(world: World, samples: Samples, chance: random.Random, seconds: float) -> float:
    """Return for how long the load ran: until the last fault was over."""
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        _sample_for(world, samples, _FAULT_EVERY_SECONDS)
        is_first = time.monotonic() < begun + seconds / 3
        fault = chance.choice(_KILLS if is_first else _HALTS)
        print(f"{fault}: {FAULTS[fault].fault(world, chance).what}", flush=True)
        world.settle(set(world.judge.open))
    return time.monotonic() - begun


def _sample_for(world: World, samples: Samples, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        world.pause(_SAMPLE_EVERY_SECONDS)
        samples.take(world)
