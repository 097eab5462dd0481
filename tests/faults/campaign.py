"""A campaign: world after world, in each round after round, the ledger compared after each."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from resolver.errors import AuditError, FaultError, TxResolverError
from tests.support.commit import commit

from .audit import audit
from .clock import clock_library
from .disk import SmallDisk
from .fault import Done
from .judge import Verdict
from .network.bare import BareWorld
from .plan import FAULTS, Round, plan, scenery
from .power import power_library
from .results import FAILED, Audit, Result, Results
from .stopping import Interrupted, told_to_stop
from .world import World


class Campaign:
    """The rounds of a seed in a folder; what its results have is not played again."""

    def __init__(self, home: Path, results: Results) -> None:
        asked = results.campaign()
        self._home = home
        self._seed: int = asked["seed"]
        self._rate: float = asked["rate"]
        self._rounds = plan(self._seed, asked["counts"])
        self._results = results

    def begin_again(self, worlds: Iterable[str]) -> None:
        """Let worlds be played from their beginning; raises `FaultError` if there is none such."""
        planned = {one.world for one in self._rounds}
        for name in worlds:
            if name not in planned:
                raise FaultError(
                    f"there is no world {name}; there are {', '.join(sorted(planned))}"
                )
            self._results.begin_again(name)
            shutil.rmtree(self._home / name, ignore_errors=True)

    def run(self, lock: int) -> None:
        """Play what is left; raises `Interrupted` when told to stop."""
        with told_to_stop() as told:
            for name, of_world in groupby(self._rounds, lambda one: one.world):
                rounds = list(of_world)
                while (left := self._left(rounds)) or not self._is_over(name):
                    self._set_aside(name)
                    like = scenery(rounds[0].fault)
                    kind = BareWorld if like.bare else World
                    world = kind(self._home / name, like, self._rate, lock, told)
                    self._visit(world, name, left)

    def _left(self, rounds: list[Round]) -> list[Round]:
        """Return what is to be played, again too where a world is gone before it was audited."""
        name = rounds[0].world
        audited = {one.partition(FAILED)[0] for one in self._results.audited}
        is_gone = name not in audited and not (self._home / name).exists()
        done = {one.number for one in self._results.rounds() if one.failed or not is_gone}
        return [one for one in rounds if one.number not in done]

    def _is_over(self, name: str) -> bool:
        """Whether a world without rounds left was audited, or has failed in its last one."""
        return bool(self._failed(name)) or name in self._results.audited

    def _failed(self, name: str) -> str:
        """Return what a world is called whose last round has failed; empty if it has not."""
        last = [result for result in self._results.rounds() if result.world == name][-1:]
        return f"{name}{FAILED}{last[0].number}" if last and last[0].failed else ""

    def _set_aside(self, name: str) -> None:
        """Keep a world that failed for a look into it: the others need one that is whole."""
        failed = self._failed(name)
        is_there = (self._home / name).exists()  # not on another machine
        if failed and is_there and not (self._home / failed).exists():
            (self._home / name).rename(self._home / failed)

    def _visit(self, world: World, name: str, rounds: list[Round]) -> None:
        """Play rounds up to one that fails, and audit the world."""
        with world:
            # What was found while catching up belongs to no round, and counts with the first.
            before = Verdict(world.judge.verdict.settled)
            for one in rounds:
                result = self._play(world, one, before)
                before = world.judge.verdict.copy()
                self._results.add(result)
                print(_line(result), flush=True)
                if result.failed:
                    name = self._failed(name)
                    break
            self._end(world, name, before)

    def _end(self, world: World, name: str, before: Verdict) -> None:
        """Let all come to its end, and audit it; where that can't be done, that is the result."""
        try:
            world.drain()
            said = audit(world, name)
        except Interrupted:
            raise
        except Exception as failed:  # of a world that has failed, whatever it is
            said = Audit(name, AuditError.exit_code, repr(failed))
        since = world.judge.verdict.since(before)
        if not since.holds:
            said = replace(said, exit_code=said.exit_code or 1, said=f"{since}; {said.said}")
        self._results.add(said)
        why = f": {said.said}" if said.exit_code else ""
        print(f"audit of {name}: exit code {said.exit_code}{why}", flush=True)

    def _play(self, world: World, one: Round, before: Verdict) -> Result:
        chance = random.Random(f"{self._seed} {one.number}")  # noqa: S311 - repeatable
        started = time.monotonic()
        world.restarts.clear()
        of = commit()
        done, error = Done(""), ""
        try:
            done = FAULTS[one.fault].fault(world, chance)
            _see_settled(world)
        except Interrupted:
            raise
        except Exception as failed:  # whatever it is, it is what became of the round
            error = str(failed) if isinstance(failed, TxResolverError) else repr(failed)
        verdict = world.judge.verdict.since(before)
        recovery, took = world.judge.recovery, time.monotonic() - started
        return Result(
            number=one.number,
            world=one.world,
            fault=one.fault,
            what=done.what,
            proof=done.proof,
            took=round(took, 2),
            recovery=None if recovery is None else round(recovery, 2),
            transactions=verdict.settled,
            lost=verdict.lost,
            doubled=verdict.doubled,
            wrong=verdict.wrong,
            restarts=list(world.restarts),
            error=error,
            commit=of,
            slowest=round(world.judge.slowest, 2),
        )


def see_possible(home: Path, faults: Iterable[str]) -> None:
    """See that this machine has what the worlds need; raises `FaultError` where it has not."""
    sceneries = {scenery(fault) for fault in faults}
    with TemporaryDirectory(dir=home) as name:
        trial = Path(name)
        if any(one.own_clock for one in sceneries):
            clock_library(trial)
        if any(one.small_disk for one in sceneries):
            SmallDisk(trial / "disk", trial / "disk.log").end()
        if any(one.cluster for one in sceneries):
            power_library(trial)


def _see_settled(world: World) -> None:
    """Wait until something begun since the fault is visible, and all that was begun has ended."""
    owed = set(world.judge.open)
    world.until(lambda: world.judge.recovery is not None, "nothing new is delivered")
    world.settle(owed)


def _line(result: Result) -> str:
    faults = {name: len(getattr(result, name)) for name in ("lost", "doubled", "wrong")}
    found = ", ".join(f"{count} {name}" for name, count in faults.items())
    recovery = "never" if result.recovery is None else f"{result.recovery:.1f} s"
    return (
        f"{result.number:>4} {result.fault:<40} {result.what:<30} {result.took:5.1f} s, recovery "
        f"{recovery}, {result.transactions:>5} transactions: {found} {result.error}"
    ).rstrip()
