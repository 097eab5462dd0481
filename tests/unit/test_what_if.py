"""A small recorded ledger, replayed by its own settings and by others."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from resolver.cli import app
from resolver.errors import SettingsError
from resolver.settings import Settings
from resolver.views import Filter, Ledger
from resolver.what_if import Comparison, compare, read_history
from tests.support.tables import Row, half, identity, outcome, time_at, write_tables

#: As the ledger was recorded: two answered checks use a half up.
RECORDED = Settings(queues=1, transaction_check_max=2)
INTERVAL = 30.0


def check(offset: int, number: int, seconds: float) -> Row:
    return {**identity(0, offset), "checks": number, "source_timestamp": time_at(seconds)}


def op(offset: int, word: str, seconds: float, *halves: int, **changes: Any) -> Row:
    state = word if word == "UNKNOWN" else f"{word}_MESSAGE"
    row = {"queue": 0, "tag": "d", "state": state, "group": "orders", "from_check": False}
    named = {"offsets": list(halves), "transaction_ids": [f"tx-0-{one}" for one in halves]}
    return {**row, **named, "stored_at": time_at(seconds), "source_offset": offset, **changes}


def ended(offset: int, word: str, source: str, seconds: float, **changes: Any) -> Row:
    return outcome(0, offset, word, seconds, source=source, source_offset=offset, **changes)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Everything that can become of a transaction, as the step decides it; all begin at 0 s.

    - 0, 1: ended by the application. 2: by the first answer. 3: used up by two UNKNOWN answers.
    - 4: nobody answers the first check; the second one is answered: the group is back, and 7 is
      asked again. 5: an end 10 s after the half,
      and after a check that nobody answers. 6: its own immunity of 20 s, and an end after 25 s that
      is late; then an answer. 7: settled by an operator. 8: Kafka did not take it. 9: pending.
      10: malformed.
    """
    wait = 6.001 + INTERVAL
    write_tables(
        tmp_path,
        half=[
            *(half(0, offset) for offset in range(6)),
            half(0, 6, immunity_seconds=20),
            half(0, 7),
            half(0, 8),
            half(0, 9, 120),
            half(0, 10, 121),
        ],
        op=[
            op(0, "COMMIT", 0.5, 0, 8),
            op(1, "ROLLBACK", 0.6, 1),
            op(2, "COMMIT", 7, 2, from_check=True),
            op(3, "UNKNOWN", 7, 3, from_check=True),
            op(4, "COMMIT", 10, 5),
            op(5, "COMMIT", 25, 6),
            op(6, "COMMIT", 26, 6, from_check=True),
            op(7, "UNKNOWN", wait + 1, 3, from_check=True),
            op(8, "ROLLBACK", wait + 2, 4, from_check=True),
            op(9, "COMMIT", 40, 7, actor="ada"),
            {"queue": 0, "tag": "fence", "stored_at": time_at(124), "source_offset": 10},
        ],
        check=[
            *(check(offset, 1, 6.001) for offset in (2, 3, 4, 5, 7)),
            check(6, 1, 20.001),
            *(check(offset, 2, wait) for offset in (3, 4, 7)),
            check(7, 3, wait + 2.001),
        ],
        quarantine=[
            {
                **identity(0, 10),
                "offset": None,
                "refused_topic": "tx.half",
                "refused_offset": 10,
                "reason": "MALFORMED_HALF",
            }
        ],
        discarded=[{**identity(0, 3), "checks": 2, "reason": "CHECK_MAX"}],
        resolution=[
            ended(0, "COMMIT", "END", 0.7),
            ended(1, "ROLLBACK", "END", 0.7),
            ended(2, "COMMIT", "CHECK", 7.1, checks=1),
            ended(3, "DISCARD", "LIMIT", wait + 31, checks=2),
            ended(4, "ROLLBACK", "CHECK", wait + 2.1, checks=2),
            ended(5, "COMMIT", "END", 10.1, checks=1),
            ended(6, "COMMIT", "CHECK", 26.1, checks=1),
            ended(7, "COMMIT", "OPERATOR", 40.1, checks=3),
            ended(8, "UNDELIVERABLE", "DELIVERY", 0.7),
        ],
    )
    return tmp_path


def replayed(tables: Path, chosen: Filter | None = None, **changes: Any) -> Comparison:
    history = read_history(Ledger(tables=tables), chosen or Filter())
    return compare(history, RECORDED, replace(RECORDED, **changes))


def found(comparison: Comparison) -> dict[str, tuple[str, str]]:
    return {one.id: (one.now, one.then) for one in comparison.differences}


def test_by_the_settings_of_then_all_comes_out_as_it_was_recorded(tables: Path) -> None:
    comparison = replayed(tables, max_checks_per_batch=4_999)
    assert comparison.otherwise == ()
    assert (comparison.as_recorded, comparison.transactions) == (10, 10)
    assert comparison.now == comparison.then
    assert comparison.now == {
        "checks sent": 10,
        "ends that came too late": 1,
        "COMMIT": 6,
        "ROLLBACK": 2,
        "DISCARD": 1,
        "UNDELIVERABLE": 0,
        "PENDING": 1,
    }


def test_an_announcement_is_replayed_too(tmp_path: Path) -> None:
    write_tables(
        tmp_path,
        half=[half(0, 0), half(0, 1, 20)],
        op=[
            op(0, "UNKNOWN", 12, from_check=True),
            op(1, "COMMIT", 13, 0, from_check=True),
            {"queue": 0, "tag": "fence", "stored_at": time_at(25), "source_offset": 2},
        ],
        check=[check(0, 1, 6.001), check(0, 2, 12.002)],
        resolution=[ended(0, "COMMIT", "CHECK", 13.1, checks=2)],
    )
    comparison = replayed(tmp_path, max_checks_per_batch=4_999)
    assert (comparison.as_recorded, comparison.transactions) == (2, 2)
    assert comparison.now["checks sent"] == 2
    assert comparison.unknown_checks == 0


def test_one_check_more_saves_the_one_that_was_given_up(tables: Path) -> None:
    comparison = replayed(tables, transaction_check_max=3)
    assert found(comparison) == {"0:3": ("DISCARD by LIMIT, CHECK_MAX", "PENDING")}
    assert comparison.then["checks sent"] == comparison.now["checks sent"] + 2
    assert comparison.unknown_checks == 2, "the third, and the one after it"


def test_a_longer_timeout_saves_checks_and_no_outcome_differs(tables: Path) -> None:
    """The end of 5 comes before its check then, and the operator before two more checks of 7."""
    comparison = replayed(tables, transaction_timeout_ms=12_000)
    assert found(comparison) == {}
    assert comparison.then["checks sent"] == comparison.now["checks sent"] - 3
    assert comparison.unknown_checks == 0


def test_a_longer_timeout_makes_an_end_that_was_too_late_count(tables: Path) -> None:
    """A half's own immunity does not shorten the time that all have."""
    comparison = replayed(tables, transaction_timeout_ms=30_000)
    assert found(comparison) == {"0:6": ("COMMIT by CHECK", "COMMIT by END")}
    assert comparison.then["ends that came too late"] == 0


def test_what_counts_unanswered_checks_gives_up_more(tables: Path) -> None:
    comparison = replayed(tables, count_unanswered_checks=True, transaction_check_max=1)
    given_up = "DISCARD by LIMIT, CHECK_MAX"
    assert found(comparison) == {
        "0:4": ("ROLLBACK by CHECK", given_up),
        "0:7": ("COMMIT by OPERATOR", given_up),
    }


def test_a_policy_refuses_the_commits(tables: Path) -> None:
    comparison = replayed(tables, reject_transaction_message=True)
    assert comparison.then["COMMIT"] == 0
    assert comparison.then["UNDELIVERABLE"] == comparison.now["COMMIT"]


def test_only_a_group_and_a_range_of_time_are_replayed(tables: Path) -> None:
    late = replayed(tables, Filter(since=time_at(60)), transaction_check_max=3)
    assert (late.transactions, late.now["PENDING"]) == (1, 1)
    nobody = replayed(tables, Filter(group="it's"), transaction_check_max=3)
    assert nobody.transactions == 0


def test_settings_that_do_not_decide_are_refused(tables: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing that decides is changed; give --set with"):
        replayed(tables, land_trigger_interval_ms=50)


def test_the_command_names_what_differs_and_says_what_it_takes_for_granted(tables: Path) -> None:
    given = ["what-if", "--tables", str(tables), "--set", "transaction_check_max=1"]
    said = CliRunner().invoke(app, given, catch_exceptions=False).stdout
    assert "transaction_check_max: 1 instead of 15" in said
    assert "0:3" in said and "tx-0-3" in said
    assert "Taken for granted:" in said
    again = CliRunner().invoke(app, [*given, "--json"], catch_exceptions=False).stdout
    assert json.loads(again)["then"]["DISCARD"] == 1


def test_it_needs_no_spark() -> None:
    code = "import sys, resolver.what_if; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


FAST_ID = "tx.fast:orders:a"


@pytest.fixture
def fast_tables(tmp_path: Path) -> Path:
    """Halves of one fast id; all begin at 0 s. The resolver revoked the id as the ledger was made.

    - 0: its producer delivered it. 1: an operator's end waits for the revocation. 2: asked about,
      once the id is revoked. 3: withdrawn. 4: its producer gives the fast commit up.
    """
    write_tables(
        tmp_path,
        half=[half(0, offset, fast_id=FAST_ID) for offset in range(5)],
        op=[
            op(0, "COMMIT", 0.5, 0, delivered=True),
            op(1, "ROLLBACK", 0.6, 3),
            op(2, "UNKNOWN", 0.7, 4, fast=False),
            op(3, "COMMIT", 0.8, 4),
            op(4, "COMMIT", 2, 1, actor="ann"),
            {"queue": 0, "tag": "revoked", "fast_id": FAST_ID, "stored_at": time_at(2.1)},
            op(6, "COMMIT", 7, 2, from_check=True),
            {"queue": 0, "tag": "fence", "stored_at": time_at(60), "source_offset": 7},
        ],
        check=[check(2, 1, 6.001)],
        resolution=[
            ended(0, "COMMIT", "END", 0.6, delivery="FAST"),
            ended(1, "COMMIT", "OPERATOR", 2.2),
            ended(2, "COMMIT", "CHECK", 7.1, checks=1),
            ended(3, "ROLLBACK", "END", 0.7),
            ended(4, "COMMIT", "END", 0.9),
        ],
    )
    return tmp_path


def test_fast_commits_come_out_as_they_were_recorded(fast_tables: Path) -> None:
    comparison = replayed(fast_tables, max_checks_per_batch=4_999)
    assert comparison.otherwise == ()
    assert (comparison.as_recorded, comparison.transactions) == (5, 5)
    assert comparison.now["checks sent"] == 1
    assert comparison.unknown_checks == 0


def test_an_id_is_revoked_as_soon_as_a_half_of_it_is_due(tmp_path: Path) -> None:
    """It never was in the ledger: the half was committed before it was due."""
    write_tables(
        tmp_path,
        half=[half(0, 0, fast_id=FAST_ID), half(0, 1, 1)],
        op=[
            op(0, "COMMIT", 5, 0, delivered=True),
            op(1, "COMMIT", 5, 1),
            {"queue": 0, "tag": "fence", "stored_at": time_at(9), "source_offset": 2},
        ],
        resolution=[ended(0, "COMMIT", "END", 5.1), ended(1, "COMMIT", "END", 5.1)],
    )
    comparison = replayed(tmp_path, transaction_timeout_ms=2_000)
    assert (comparison.now["checks sent"], comparison.then["checks sent"]) == (0, 2)
    assert (comparison.now["COMMIT"], comparison.then["COMMIT"]) == (2, 2)
    assert comparison.unknown_checks == 2
