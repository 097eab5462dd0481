"""The order of keys: a quick load of many keys, the resolver killed again and again.

A commit of a key waits until the key's commit before it was handed over. The judge of the world
then looks at each partition: a key's messages stand there in the order of their commits.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from resolver.up.home import Home

from .audit import audit
from .fault_error import FaultError
from .kills import kill_resolver_at
from .points import RESOLVE_POINTS
from .process import Victim
from .stopping import told_to_stop
from .world import World
from .world_kind import WorldKind

#: Kills of the resolver, unless another number is asked for.
KILLS = 20
#: Keys of the load.
KEYS = 1_000
#: Longest wait in seconds for commits, at a slow rate on a busy machine.
_COMMITTED_SECONDS = 7_200.0


class OrderedWorld(World):
    """A world whose load has many keys; land runs at the end, so the load has the machine."""

    def start_load(self, *more: str) -> None:
        super().start_load(f"--keys={KEYS}", *more)

    def another_resolver(self, *more: str, home: Path) -> Victim:
        checkpoint = str(Home(home).resolve_checkpoint)
        return self._start_doomed("resolve", "--checkpoint", checkpoint, "--verbose", *more)


def ordered(home: Path, commits: int, kills: int, rate: float, seed: int, lock: int) -> str:
    """Return what was seen; raises `FaultError` where a message is out of order, or any other is.

    The kills are spread over the commits, each at a point of a batch.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable is what it is for
    shutil.rmtree(home / "ordered", ignore_errors=True)
    with (
        told_to_stop() as stop_requested,
        OrderedWorld(home / "ordered", WorldKind(fast=0), rate, lock, stop_requested) as world,
    ):
        for number in range(1, kills + 1):
            _await_commits(world, commits * number // (kills + 1))
            point = chance.choice(list(RESOLVE_POINTS.values()))
            done = kill_resolver_at(point)(world, chance)
            print(f"{world.committed():,} committed: {done.what}, {done.proof}", flush=True)
        _await_commits(world, commits)
        world.drain()
        audited = audit(world, "ordered")
    judge = world.judge
    # Ends by check are not judged; were they most, little would be shown.
    if not judge.verdict.holds or audited.exit_code or judge.in_order < commits // 2:
        raise FaultError(f"{judge.in_order} in order; {judge.verdict}; audit: {audited}")
    return (
        f"{judge.in_order:,} commits of {KEYS:,} keys stand in their order, after {kills} kills; "
        f"{judge.verdict.settled:,} transactions, none lost, doubled or wrongly delivered."
    )


def _await_commits(world: World, count: int) -> None:
    world.until(
        lambda: world.committed() >= count, "the load commits too little", _COMMITTED_SECONDS
    )
