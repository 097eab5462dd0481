"""A campaign: world after world, round after round in each, and a verdict after each round."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from resolver.errors import AuditError, TxResolverError
from tests.support.commit import commit

from .audit import audit
from .clock import clock_library
from .disk import SmallDisk
from .fault import Done
from .fault_error import FaultError
from .judge import Verdict
from .network.bare import BareWorld
from .plan import FAULTS, Round, plan, world_kind_of
from .power import power_library
from .results import FAILED, Audit, Result, Results
from .stopping import Interrupted, told_to_stop
from .world import World


class Campaign:
    """The rounds of a seed in a folder; rounds that have a result are not run again."""

    def __init__(self, home: Path, results: Results) -> None:
        begun_with = results.campaign()
        self._home = home
        self._seed: int = begun_with["seed"]
        self._rate: float = begun_with["rate"]
        self._rounds = plan(self._seed, begun_with["counts"])
        self._results = results

    def begin_again(self, worlds: Iterable[str]) -> None:
        """Let worlds be run from their beginning; raises `FaultError` for an unknown one."""
        planned = {round_.world for round_ in self._rounds}
        for name in worlds:
            if name not in planned:
                raise FaultError(
                    f"there is no world {name}; there are {', '.join(sorted(planned))}"
                )
            self._results.begin_again(name)
            shutil.rmtree(self._home / name, ignore_errors=True)

    def run(self, lock: int) -> None:
        """Run the rounds that are left; raises `Interrupted` when told to stop."""
        with told_to_stop() as stop_requested:
            for name, of_world in groupby(self._rounds, lambda round_: round_.world):
                rounds = list(of_world)
                while (remaining := self._remaining(rounds)) or not self._is_over(name):
                    self._set_aside(name)
                    kind = world_kind_of(rounds[0].fault)
                    world_class = BareWorld if kind.bare else World
                    world = world_class(self._home / name, kind, self._rate, lock, stop_requested)
                    self._visit(world, name, remaining)

    def _remaining(self, rounds: list[Round]) -> list[Round]:
        """Return the rounds to run.

        If the world is gone before its audit, its rounds are run again, except failed ones.
        """
        name = rounds[0].world
        audited = {audited_name.partition(FAILED)[0] for audited_name in self._results.audited}
        is_gone = name not in audited and not (self._home / name).exists()
        done = {result.number for result in self._results.rounds() if result.failed or not is_gone}
        return [round_ for round_ in rounds if round_.number not in done]

    def _is_over(self, name: str) -> bool:
        """Whether a world without rounds left was audited, or has failed in its last one."""
        return bool(self._failed(name)) or name in self._results.audited

    def _failed(self, name: str) -> str:
        """Return the name of a world that is set aside: its last round failed. Else empty."""
        last = [result for result in self._results.rounds() if result.world == name][-1:]
        return f"{name}{FAILED}{last[0].number}" if last and last[0].failed else ""

    def _set_aside(self, name: str) -> None:
        """Keep a failed world for a look into it: the rounds that are left need a new one."""
        failed = self._failed(name)
        is_there = (self._home / name).exists()  # it may be on another machine
        if failed and is_there and not (self._home / failed).exists():
            (self._home / name).rename(self._home / failed)

    def _visit(self, world: World, name: str, rounds: list[Round]) -> None:
        """Run rounds up to one that fails, and audit the world."""
        with world:
            # What was found while catching up belongs to no round, and counts with the first.
            before = Verdict(world.judge.verdict.settled)
            for round_ in rounds:
                result = self._run_round(world, round_, before)
                before = world.judge.verdict.copy()
                self._results.add(result)
                print(_line(result), flush=True)
                if result.failed:
                    name = self._failed(name)
                    break
            self._end(world, name, before)

    def _end(self, world: World, name: str, before: Verdict) -> None:
        """Let all come to its end, and audit the world; an exception is a result too."""
        try:
            world.drain()
            audited = audit(world, name)
        except Interrupted:
            raise
        except Exception as failed:  # of a world that has failed, whatever it is
            audited = Audit(name, AuditError.exit_code, repr(failed))
        since = world.judge.verdict.since(before)
        if not since.holds:
            audited = replace(
                audited, exit_code=audited.exit_code or 1, said=f"{since}; {audited.said}"
            )
        self._results.add(audited)
        why = f": {audited.said}" if audited.exit_code else ""
        print(f"audit of {name}: exit code {audited.exit_code}{why}", flush=True)

    def _run_round(self, world: World, round_: Round, before: Verdict) -> Result:
        chance = random.Random(f"{self._seed} {round_.number}")  # noqa: S311 - repeatable
        started = time.monotonic()
        world.restarts.clear()
        commit_id = commit()
        done, error = Done(""), ""
        try:
            done = FAULTS[round_.fault].fault(world, chance)
            _see_settled(world)
        except Interrupted:
            raise
        except Exception as failed:  # whatever it is, it is what became of the round
            is_ours = isinstance(failed, (TxResolverError, FaultError))
            error = str(failed) if is_ours else repr(failed)
        verdict = world.judge.verdict.since(before)
        recovery, took = world.judge.recovery, time.monotonic() - started
        return Result(
            number=round_.number,
            world=round_.world,
            fault=round_.fault,
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
            commit=commit_id,
            slowest=round(world.judge.slowest, 2),
        )


def see_possible(home: Path, faults: Iterable[str]) -> None:
    """See that this machine has what the worlds need; raises `FaultError` where it has not."""
    kinds = {world_kind_of(fault) for fault in faults}
    with TemporaryDirectory(dir=home) as name:
        trial = Path(name)
        if any(kind.own_clock for kind in kinds):
            clock_library(trial)
        if any(kind.small_disk for kind in kinds):
            SmallDisk(trial / "disk", trial / "disk.log").end()
        if any(kind.cluster for kind in kinds):
            power_library(trial)


def _see_settled(world: World) -> None:
    """Wait until something begun since the fault is visible, and all that was begun has ended."""
    owed = set(world.judge.open)
    world.until(lambda: world.judge.recovery is not None, "nothing new is delivered")
    world.settle(owed)


def _line(result: Result) -> str:
    faults = {name: len(getattr(result, name)) for name in ("lost", "doubled", "wrong")}
    counts = ", ".join(f"{count} {name}" for name, count in faults.items())
    recovery = "never" if result.recovery is None else f"{result.recovery:.1f} s"
    return (
        f"{result.number:>4} {result.fault:<40} {result.what:<30} {result.took:5.1f} s, recovery "
        f"{recovery}, {result.transactions:>5} transactions: {counts} {result.error}"
    ).rstrip()
