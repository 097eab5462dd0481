"""A campaign's worlds: one in which a round failed is set aside, each is audited; by stand-ins."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.faults import campaign
from tests.faults.campaign import Campaign
from tests.faults.fault import Done
from tests.faults.fault_error import FaultError
from tests.faults.judge import Verdict
from tests.faults.kept import Kept
from tests.faults.plan import FAULTS, PlannedFault
from tests.faults.report import summary
from tests.faults.results import Audit, Results
from tests.faults.stopping import Interrupted
from tests.faults.world import World
from tests.faults.world_kind import WorldKind

FAULT = "kill broker"
WORLD = "mixed-1"


class StandIn:
    """A world without processes: what a campaign asks of one."""

    def __init__(self, home: Path, *_: object) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.judge = self
        self.verdict = Verdict()
        self.recovery = 1.0
        self.slowest = 0.5
        self.open: set[str] = set()
        self.restarts: list[str] = []

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def until(self, *_: object) -> None:
        pass

    def settle(self, _owed: set[str]) -> None:
        pass

    def drain(self) -> None:
        pass


class Told:
    """What is to happen in the next rounds and audits: an error, or nothing; then nothing."""

    def __init__(self) -> None:
        self.rounds: list[BaseException | None] = []
        self.audits: list[BaseException | None] = []
        self.lost: list[str] = []

    def fault(self, world: Any, _chance: random.Random) -> Done:
        world.verdict.lost += self.lost
        self.lost = []
        self._do(self.rounds)
        return Done("done")

    def audit(self, _world: Any, name: str) -> Audit:
        self._do(self.audits)
        return Audit(name, 0, "")

    @staticmethod
    def _do(errors: list[BaseException | None]) -> None:
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(campaign, "World", StandIn)
    monkeypatch.setattr(campaign, "audit", told.audit)
    monkeypatch.setitem(FAULTS, FAULT, PlannedFault("kills", told.fault, 3))
    return told


@pytest.fixture
def results(tmp_path: Path) -> Results:
    results = Results(tmp_path / "results.jsonl")
    results.begin({"seed": 1, "counts": {FAULT: 3}, "rate": 1})
    return results


def run(home: Path, results: Results) -> None:
    Campaign(home, results).run(lock=0)


def worlds(home: Path) -> list[str]:
    return sorted(folder.name for folder in home.iterdir() if folder.is_dir())


def test_all_is_played_once_and_audited(told: Told, results: Results, tmp_path: Path) -> None:
    run(tmp_path, results)
    assert [one.number for one in results.rounds()] == [0, 1, 2]
    assert [one.audited for one in results.audits()] == [WORLD]
    run(tmp_path, results)
    assert len(results.rounds()) == 3 and len(results.audits()) == 1
    assert results.hold


def test_a_world_in_which_a_round_failed_is_audited_and_set_aside(
    told: Told, results: Results, tmp_path: Path
) -> None:
    told.rounds = [None, FaultError("it hangs")]
    run(tmp_path, results)
    assert [one.error for one in results.rounds()] == ["", "it hangs", ""]
    assert [one.audited for one in results.audits()] == [f"{WORLD}.failed-1", WORLD]
    assert worlds(tmp_path) == [WORLD, f"{WORLD}.failed-1"]
    assert not results.hold


def test_a_world_in_which_something_was_lost_is_set_aside_too(
    told: Told, results: Results, tmp_path: Path
) -> None:
    told.lost = ["0:7: still open"]
    run(tmp_path, results)
    assert [one.audited for one in results.audits()] == [f"{WORLD}.failed-0", WORLD]
    assert worlds(tmp_path) == [WORLD, f"{WORLD}.failed-0"]


def test_a_round_that_lost_something_has_failed_and_is_never_played_again(
    told: Told, results: Results, tmp_path: Path
) -> None:
    told.lost, told.audits = ["0:7: still open"], [Interrupted()]
    with pytest.raises(Interrupted):
        run(tmp_path, results)
    (tmp_path / WORLD).rmdir()  # as on another machine
    run(tmp_path, results)
    assert [one.lost for one in results.rounds()] == [["0:7: still open"], [], []]
    assert not results.hold
    assert "| 3 | 1 |" in summary(results)


@pytest.mark.parametrize("interrupted", [[Interrupted()], [None, Interrupted()]])
def test_interrupted_in_an_audit_it_goes_on_with_no_failed_world_and_no_audit_less(
    told: Told, results: Results, tmp_path: Path, interrupted: list[BaseException | None]
) -> None:
    """In that of the world that has failed, or in that of the one that took its place."""
    told.rounds, told.audits = [FaultError("it hangs")], interrupted
    with pytest.raises(Interrupted):
        run(tmp_path, results)
    run(tmp_path, results)
    assert [one.number for one in results.rounds()] == [0, 1, 2]
    assert results.audits()[-1].audited == WORLD
    assert worlds(tmp_path) == [WORLD, f"{WORLD}.failed-0"]


def test_a_world_is_played_again_where_that_is_asked_for_and_its_results_are_kept(
    told: Told, results: Results, tmp_path: Path
) -> None:
    told.rounds = [FaultError("it hangs"), None, None, None]
    run(tmp_path, results)
    assert not results.hold
    campaign = Campaign(tmp_path, results)
    campaign.begin_again([WORLD])
    campaign.run(lock=0)
    assert [one.error for one in results.rounds()] == ["", "", ""]
    assert [one.audited for one in results.audits()] == [WORLD]
    assert results.hold
    assert results.again == {WORLD: 3}
    assert f"Played again since, by newer code: {WORLD} (3 rounds)." in summary(results)
    assert "it hangs" in (tmp_path / "results.jsonl").read_text()


def test_only_a_world_of_the_plan_can_be_played_again(
    told: Told, results: Results, tmp_path: Path
) -> None:
    with pytest.raises(FaultError, match=f"no world moon-1; there are {WORLD}"):
        Campaign(tmp_path, results).begin_again(["moon-1"])


def test_after_a_failure_in_the_last_round_there_is_no_other_world(
    told: Told, results: Results, tmp_path: Path
) -> None:
    told.rounds = [None, None, FaultError("it hangs")]
    run(tmp_path, results)
    run(tmp_path, results)
    assert [one.audited for one in results.audits()] == [f"{WORLD}.failed-2"]
    assert worlds(tmp_path) == [WORLD]


def test_rounds_of_a_world_that_is_gone_before_its_audit_are_played_again(
    told: Told, results: Results, tmp_path: Path
) -> None:
    told.rounds = [None, Interrupted()]
    with pytest.raises(Interrupted):
        run(tmp_path, results)
    assert [one.number for one in results.rounds()] == [0]
    (tmp_path / WORLD).rmdir()
    told.rounds = [FaultError("it hangs now")]
    run(tmp_path, results)
    assert [(one.number, one.error) for one in results.rounds()] == [
        (0, "it hangs now"),
        (1, ""),
        (2, ""),
    ]


def test_a_world_is_gone_on_with_in_the_home_and_by_the_settings_that_it_had(
    tmp_path: Path,
) -> None:
    def world() -> World:
        return World(tmp_path, WorldKind(), 1, 0, threading.Event())

    assert world().resolver_home == tmp_path / "first"
    world().keep(Kept("second", {"max_checks_per_batch": 7}))
    assert world().resolver_home == tmp_path / "second"
    assert "--set=max_checks_per_batch=7" in world().sets
