"""A fault campaign: the same seed, the same rounds; and it goes on where it was interrupted."""

from __future__ import annotations

import logging
import random
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from resolver.ledger import TABLES
from resolver.spark.points import Point
from tests.faults.doomed import Doom
from tests.faults.fault_error import FaultError
from tests.faults.load import IMMUNITY_SECONDS
from tests.faults.network.aimed import TEARING, WINDOWS
from tests.faults.plan import FAULTS, counts, plan, world_kind_of
from tests.faults.points import BETWEEN_TABLES, RESOLVE_POINTS
from tests.faults.report import summary
from tests.faults.results import Audit, Result, Results
from tests.faults.surroundings import other_settings
from tests.faults.world_kind import SHORTENED, WorldKind

RESULT = Result(3, "kills-1", "kill resolver", "kill -9", "", 9.5, 7.25, 400)


def test_the_same_seed_gives_the_same_rounds_and_another_others() -> None:
    whole = counts(None, [])
    assert plan(1, whole) == plan(1, whole)
    assert plan(1, whole) != plan(2, whole)
    assert Counter(one.fault for one in plan(1, whole)) == whole


def test_a_whole_campaign_has_what_has_to_be_shown() -> None:
    whole = counts(None, [])
    assert whole["kill resolver"] >= 200
    assert whole["kill broker"] >= 50
    assert whole["zombie"] >= 20
    assert len(RESOLVE_POINTS) == 5
    assert min(whole[f"kill resolver {point}"] for point in RESOLVE_POINTS) >= 20
    assert min(whole[f"kill resolver and broker {point}"] for point in RESOLVE_POINTS) >= 5
    others = ("while broker halted", "while broker down")
    assert min(whole[f"kill resolver {other}"] for other in others) >= 10
    assert whole["zombie past killed broker"] >= 10
    for api, window in product(TEARING, WINDOWS):
        assert whole[f"bare delivery: late {api} {window}"] >= 20
    assert sum(count for name, count in whole.items() if FAULTS[name].group == "network") >= 200
    of_three_brokers = [name for name in whole if world_kind_of(name).cluster]
    assert sum(whole[name] for name in of_three_brokers) >= 100


def test_between_two_tables_is_behind_each_but_the_last() -> None:
    dooms = [Doom(Point.IN_TABLE, table=table) for table in BETWEEN_TABLES]
    lines = [line(3, 12, Point.IN_TABLE, table.name) for table in TABLES]
    hit = [[doom.is_at(one) for doom in dooms] for one in lines]
    assert [sum(of_line) for of_line in hit] == [1] * (len(TABLES) - 1) + [0]


def test_a_shorter_one_has_each_fault() -> None:
    assert set(counts(100, [])) == set(FAULTS)
    assert min(counts(1, []).values()) == 1
    assert counts(10, ["kill resolver"]) == {"kill resolver": 10}
    assert counts(15, ["kill broker", "zombies"]) == {
        "kill broker": 9,
        "zombie": 3,
        "zombie past killed broker": 1,
    }
    damage = {name for name, planned in FAULTS.items() if planned.group == "damage"}
    assert set(counts(1, ["damage"])) == damage


def test_few_rounds_share_a_world_unless_they_need_one_of_their_own() -> None:
    few = dict.fromkeys(["kill broker", "zombie", "kill workers", "full disk"], 2)
    worlds = {one.world: world_kind_of(one.fault) for one in plan(1, few)}
    assert worlds == {"mixed-1": WorldKind(), "disk-1": WorldKind(small_disk=True)}
    assert len({one.world for one in plan(1, dict.fromkeys(few, 20))}) == 4
    longer = Counter(one.world for one in plan(1, {"kill broker": 36}))
    assert longer == {"mixed-1": 20, "mixed-2": 16}


def test_every_group_has_its_first_world_before_any_has_its_second() -> None:
    rounds = plan(1, dict.fromkeys(["kill broker", "zombie", "full disk"], 41))
    assert list(dict.fromkeys(one.world for one in rounds)) == [
        *("kills-1", "zombies-1", "disk-1"),
        *("kills-2", "zombies-2", "disk-2"),
    ]
    # Numbers are those of the group's own order: a world has consecutive ones, wherever it is.
    assert sorted(one.number for one in rounds) == list(range(123))
    for world in ("kills-1", "disk-1"):
        numbers = [one.number for one in rounds if one.world == world]
        assert numbers == list(range(numbers[0], numbers[0] + 40))


def test_results_are_gone_on_with_and_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with pytest.raises(FaultError, match="leave out --resume"):
        Results(file).campaign()
    Results(file).begin({"seed": 7})
    Results(file).add(RESULT)
    with pytest.raises(FaultError, match="go on with --resume"):
        Results(file).begin({"seed": 8})
    assert Results(file).campaign() == {"seed": 7}
    assert Results(file).rounds() == [RESULT]


def test_results_tell_where_something_is_from_their_own_folder_on(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.begin({"seed": 7})
    results.add(replace(RESULT, proof=f"remove the folder {tmp_path}/kills-1/first and go on"))
    assert results.rounds()[0].proof == "remove the folder kills-1/first and go on"


def test_without_an_audit_of_each_world_nothing_holds(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.begin({"seed": 7, "counts": {"kill resolver": 2}})
    results.add(RESULT)
    results.add(replace(RESULT, number=4, world="kills-2"))
    results.add(Audit("kills-1", 0, "", 400))
    assert not results.hold and "without a violation: 1 of 2," in summary(results)
    results.add(Audit("kills-2", 0, "", 400))
    assert results.hold and "without a violation: 2 of 2," in summary(results)


def test_an_audit_of_less_than_the_rounds_did_is_none(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.begin({"seed": 7, "counts": {"kill resolver": 1}})
    results.add(RESULT)
    results.add(Audit("kills-1", 0, "", RESULT.transactions - 1))
    assert not results.hold and "without a violation: 0 of 1," in summary(results)


def test_a_round_that_is_played_again_counts_once(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.begin({"seed": 7, "counts": {"kill resolver": 2}})
    others = [replace(RESULT, number=4), replace(RESULT, transactions=50)]
    for one in (RESULT, *others):
        results.add(one)
    assert results.rounds() == others


def test_the_report_tells_rounds_that_failed_and_takes_no_recovery_for_a_quick_one(
    tmp_path: Path,
) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.begin({"seed": 7, "counts": {"kill resolver": 4}})
    results.add(RESULT)
    results.add(replace(RESULT, number=4, recovery=None, transactions=0))
    results.add(replace(RESULT, number=5, recovery=None, transactions=0, error="nothing came"))
    results.add(replace(RESULT, number=6, recovery=0.5, transactions=0, error="not settled"))
    results.add(Audit("kills-1.failed-6", 4, ""))
    assert "without a violation: 0 of 1," in summary(results)
    assert "| kill resolver | 4 | 2 | 400 | 0 | 0 | 0 | 7.2 / 7.2 s |" in summary(results)


def test_a_result_that_a_kill_cut_short_is_left_out_and_written_after(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    Results(file).begin({"seed": 7})
    with file.open("a") as cut:
        cut.write('{"number": 2, "wor')
    assert Results(file).rounds() == []
    Results(file).add(RESULT)
    assert Results(file).rounds() == [RESULT]


def test_other_settings_leave_a_worlds_audit_as_it_was() -> None:
    """A limit that discards must have reached, or who is late, is the same all along."""
    for seed in range(100):
        settings = other_settings(random.Random(seed))  # noqa: S311
        shortest = SHORTENED["transaction_timeout_ms"]
        assert shortest <= settings["transaction_timeout_ms"] <= 1_000 * IMMUNITY_SECONDS
        limits = {"transaction_check_max", "count_unanswered_checks", "file_reserved_hours"}
        assert not limits & set(settings)


def test_a_doom_comes_once_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "doom.json"
    assert Doom.take(file, line(3, Point.DECIDED)) is None
    Doom(Point.DECIDED).write(file)
    assert Doom.take(file, line(3, Point.DECIDING)) is None
    assert Doom.take(file, line(3, Point.DECIDED)) == Doom(Point.DECIDED)
    assert Doom.take(file, line(4, Point.DECIDED)) is None


def line(*values: object) -> logging.LogRecord:
    return logging.LogRecord("resolver", logging.DEBUG, "", 0, "batch", values, None)
