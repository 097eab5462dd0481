"""The questions to a ledger, on small tables with hand-made expectations."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from resolver.cli import app
from resolver.errors import LedgerError, NoSuchTransaction, SettingsError
from resolver.up.home import Home
from resolver.views import Filter, HalfId, Ledger
from resolver.views.why import sentences
from tests.support.tables import half, identity, outcome, time_at, write_tables


def check(offset: int, number: int, seconds: float) -> dict[str, Any]:
    return {**identity(0, offset), "checks": number, "source_timestamp": time_at(seconds)}


def op(offset: int, state: str, seconds: float, half_offset: int, **changes: Any) -> dict[str, Any]:
    row = {"queue": 0, "tag": "d", "state": state, "group": "orders", "from_check": False}
    named = {"offsets": [half_offset], "transaction_ids": [f"tx-0-{half_offset}"]}
    return {**row, **named, "stored_at": time_at(seconds), "source_offset": offset, **changes}


def refusal(half_offset: int, reason: str, op_offset: int) -> dict[str, Any]:
    of = {**identity(0, half_offset), "refused_topic": "tx.op", "refused_offset": op_offset}
    return {**of, "element": 0, "reason": reason, "error": "no", "source_timestamp": time_at(9)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ledger with everything that can become of a transaction, by the offset of its half."""
    write_tables(
        tmp_path / "tables",
        half=[
            *(half(0, offset, value=b"secret") for offset in range(10)),
            half(0, 10, transaction_id=None, group=None, topic=None),  # malformed
        ],
        op=[
            op(0, "COMMIT_MESSAGE", 0.5, 0),
            op(1, "ROLLBACK_MESSAGE", 0.5, 1),
            op(2, "UNKNOWN", 8, 6, from_check=True),
            op(3, "COMMIT_MESSAGE", 0.5, 3),
            op(4, "ROLLBACK_MESSAGE", 6, 0),
            op(5, "COMMIT_MESSAGE", 7, 8, from_check=True),
            op(6, "COMMIT_MESSAGE", 9, 8),
            op(7, "COMMIT_MESSAGE", 9, 1),  # its refusal has not landed yet
        ],
        check=[
            check(2, 1, 6),
            check(6, 1, 6),
            check(6, 2, 36),
            check(6, 3, 66),
            check(6, 4, 126),
            check(8, 1, 6),
        ],
        discarded=[
            {**identity(0, 2), "checks": 1, "reason": "EXPIRED", "source_timestamp": time_at(9)},
            {**identity(0, 3), "checks": 0, "reason": "UNDELIVERABLE", "error": "no such topic"},
        ],
        quarantine=[
            refusal(0, "CONFLICTING_END", 4),
            {
                **identity(0, 4),
                "offset": None,
                "refused_topic": "tx.half",
                "refused_offset": 4,
                "reason": "MALFORMED_HALF",
                "error": "no group",
            },
        ],
        parked=[
            {**identity(0, 5), "outcome": "COMMIT", "source": "END", "decided_at": time_at(2)},
            {**identity(0, 9), "topic": "b", "outcome": "COMMIT", "decided_at": time_at(2)},
            {**identity(0, 7), "topic": "b", "outcome": "COMMIT", "decided_at": time_at(2)},
            {"released_topic": "b", "released_upto": 3, "source_timestamp": time_at(3)},
            {"released_topic": None, "released_upto": 0, "source_timestamp": time_at(3)},
        ],
        resolution=[
            outcome(0, 0, "COMMIT"),
            outcome(0, 1, "ROLLBACK"),
            outcome(0, 2, "DISCARD", 9, source="LIMIT", op_offset=None, ended_at=None, checks=1),
            outcome(0, 3, "UNDELIVERABLE", source="DELIVERY", op_offset=3),
            outcome(0, 8, "COMMIT", 7.5, source="CHECK", op_offset=5, checks=1, answered=1),
            outcome(0, 9, "COMMIT"),
        ],
    )
    return tmp_path


@pytest.fixture
def ledger(home: Path) -> Ledger:
    return Ledger(home)


def ids(rows: Any) -> list[int]:
    return [row["offset"] for row in rows.to_pylist()]


def test_the_tables_are_those_of_the_home(tmp_path: Path) -> None:
    assert Ledger(tmp_path).tables == str(Home(tmp_path).tables)


def test_each_transaction_has_one_status_and_a_refused_half_none(ledger: Ledger) -> None:
    counts = {row["status"]: row["count"] for row in ledger.statuses().to_pylist()}
    assert counts == {
        "COMMIT": 3,
        "ROLLBACK": 1,
        "DISCARD": 1,
        "UNDELIVERABLE": 1,
        "PENDING": 2,
        "PARKED": 1,
    }
    assert sorted(ids(ledger.transactions())) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert ids(ledger.pending()) == [5, 6, 7]


def test_a_pending_one_is_asked_next_by_how_many_checks_nobody_answered(ledger: Ledger) -> None:
    rows = {row["offset"]: row for row in ledger.pending().to_pylist()}
    assert rows[7]["next_check_at"] == time_at(6)
    # One check was answered; three in a row were not: 30 s, twice doubled.
    assert (rows[6]["checks"], rows[6]["last_answer_at"]) == (4, time_at(8))
    assert rows[6]["next_check_at"] == time_at(126 + 120)
    assert rows[5]["next_check_at"] is None


def test_an_outcome_that_lands_before_its_half_hides_no_pending_one(tmp_path: Path) -> None:
    write_tables(
        tmp_path / "tables",
        half=[half(0, 0), half(0, 1)],
        resolution=[outcome(0, 0, "COMMIT"), outcome(0, 2, "COMMIT")],
    )
    assert ids(Ledger(tmp_path).pending()) == [1]


def test_failures_are_grouped_by_reason_and_place(ledger: Ledger) -> None:
    found = {
        (row["reason"], row["place"], row["count"], row["example"])
        for row in ledger.failures().to_pylist()
    }
    assert found == {
        ("EXPIRED", "orders.placed", 1, "0:2"),
        ("UNDELIVERABLE", "orders.placed", 1, "0:3"),
        ("CONFLICTING_END", "tx.op", 1, "0:0"),
        ("MALFORMED_HALF", "tx.half", 1, "0:4"),
    }
    assert [row["reason"] for row in ledger.failures(Filter(since=time_at(9))).to_pylist()] == [
        "CONFLICTING_END",
        "EXPIRED",
    ]


def test_groups_say_whether_they_answer(ledger: Ledger) -> None:
    (group,) = ledger.groups().to_pylist()
    assert (group["group"], group["ended"], group["pending"], group["parked"]) == (
        "orders",
        6,
        2,
        1,
    )
    assert (group["unanswered"], group["last_answer_at"]) == (1, time_at(8))


def test_rates_and_latency_are_by_minute(ledger: Ledger) -> None:
    (rate,) = ledger.rates().to_pylist()
    assert (rate["minute"], rate["begun"], rate["committed"], rate["discarded"]) == (
        time_at(0),
        10,
        3,
        1,
    )
    (latency,) = ledger.latency().to_pylist()
    assert (latency["ended"], latency["p50_ms"], latency["max_ms"]) == (5, 750, 750)


def test_a_filter_picks_by_group_status_time_and_number(ledger: Ledger) -> None:
    assert ids(ledger.transactions(Filter(status="ROLLBACK"))) == [1]
    assert ids(ledger.transactions(Filter(group="it's"))) == []
    assert len(ids(ledger.transactions(Filter(limit=2)))) == 2
    assert ids(ledger.pending(Filter(older=timedelta(days=100_000)))) == []
    assert ids(ledger.pending(Filter(until=time_at(0)))) == []
    with pytest.raises(SettingsError, match="no status 'DONE'"):
        Filter(status="DONE")
    with pytest.raises(SettingsError, match="groups can't be chosen by topic"):
        ledger.groups(Filter(topic="a"))


def test_a_transaction_is_found_by_id_beginning_and_half_id(ledger: Ledger) -> None:
    assert ledger.find("tx-0-7") == ledger.find("0:7") == HalfId(0, 7)
    with pytest.raises(NoSuchTransaction, match="no transaction 'nobody'"):
        ledger.find("nobody")
    with pytest.raises(NoSuchTransaction, match=r"'tx-0' is the beginning of .*0:0 \(tx-0-0\)"):
        ledger.find("tx-0")


def test_an_id_with_which_many_others_begin_is_found(tmp_path: Path) -> None:
    longer = [half(0, offset, transaction_id=f"x{offset}") for offset in range(20)]
    write_tables(tmp_path / "tables", half=[*longer, half(0, 20, transaction_id="x")])
    assert Ledger(tmp_path).find("x") == HalfId(0, 20)


def test_what_has_changed_since_then(home: Path, ledger: Ledger) -> None:
    then = ledger.versions
    write_tables(
        home / "tables",
        half=[half(0, 11)],
        resolution=[outcome(0, 7, "COMMIT", 99, source_offset=6)],
    )
    now = Ledger(home)
    found = {
        (row["offset"], row["before"], row["after"])
        for row in now.diff(now.as_of(then)).to_pylist()
    }
    assert found == {(7, "PENDING", "COMMIT"), (11, None, "PENDING")}
    assert ids(now.as_of(then).pending()) == [5, 6, 7]
    assert len(ids(now.diff(now.as_of(then)))) == 2, "it may be asked again"
    assert [tuple(row.values()) for row in now.moves(now.as_of(then)).to_pylist()] == [
        (None, "PENDING", 1),
        ("PENDING", "COMMIT", 1),
    ]


def test_what_was_parked_then_or_is_now_is_not_called_pending(home: Path, ledger: Ledger) -> None:
    then = ledger.versions
    write_tables(
        home / "tables",
        parked=[{**identity(0, 6), "decided_at": time_at(80), "source_offset": 9}],
        resolution=[outcome(0, 5, "COMMIT", 99, source_offset=6)],
    )
    now = Ledger(home)
    found = {
        (row["offset"], row["before"], row["after"])
        for row in now.diff(now.as_of(then)).to_pylist()
    }
    assert found == {(5, "PARKED", "COMMIT"), (6, "PENDING", "PARKED")}


def test_an_answer_that_names_another_transaction_id_does_not_count(tmp_path: Path) -> None:
    other = op(0, "UNKNOWN", 8, 0, from_check=True, transaction_ids=["a guess"])
    write_tables(tmp_path / "tables", half=[half(0, 0)], check=[check(0, 1, 6)], op=[other])
    (row,) = Ledger(tmp_path).pending().to_pylist()
    assert (row["checks"], row["last_answer_at"]) == (1, None)


def test_an_op_that_was_refused_as_a_whole_is_no_end(tmp_path: Path) -> None:
    whole = {**refusal(0, "MALFORMED_OP", 3), "element": None, "offset": None}
    write_tables(
        tmp_path / "tables",
        half=[half(0, 0)],
        op=[op(3, "COMMIT_MESSAGE", 0.5, 0)],
        quarantine=[whole],
    )
    said = why(Ledger(tmp_path), 0)
    assert said[0].startswith("pending: no valid end has landed")
    assert said[-1] == "The op 3 is in quarantine as MALFORMED_OP (tx.quarantine:0:0): no."


def test_sql_is_run_over_the_views_and_the_tables(ledger: Ledger) -> None:
    found = ledger.sql("SELECT p.offset FROM pending p JOIN half h ON p.offset = h.offset")
    assert sorted(ids(found)) == [5, 6, 7]


def why(ledger: Ledger, offset: int) -> list[str]:
    half_id = HalfId(0, offset)
    events = ledger.timeline(half_id).to_pylist()
    return list(sentences(events, ledger.pending_row(half_id, events)))


def test_why_names_the_first_end_and_what_was_refused(ledger: Ledger) -> None:
    first, decided, refused = why(ledger, 0)
    assert first == (
        "committed: the first valid end was the application's COMMIT at "
        "2026-01-31 10:00:00.500 (tx.op:0:0)."
    )
    assert decided.endswith("(tx.resolution:0:0).")
    assert refused == "The op 4 is in quarantine as CONFLICTING_END (tx.quarantine:0:0): no."


def test_why_names_the_check_that_was_answered_and_a_duplicate(ledger: Ledger) -> None:
    first, _, again = why(ledger, 8)
    assert "the COMMIT that answers check 1 at 2026-01-31 10:00:07.000 (tx.op:0:5)" in first
    assert again == "The same end came again at 2026-01-31 10:00:09.000 (tx.op:0:6)."


def test_why_names_an_end_whose_outcome_has_not_landed(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", half=[half(0, 0)], op=[op(3, "COMMIT_MESSAGE", 0.5, 0)])
    said = why(Ledger(tmp_path), 0)
    assert said == [
        "pending: the application's COMMIT at 2026-01-31 10:00:00.500 has landed (tx.op:0:3).",
        "Its outcome has not: the resolver is behind or away, or land is.",
    ]


def test_another_end_is_no_duplicate(ledger: Ledger) -> None:
    assert len(why(ledger, 1)) == 2


@pytest.mark.parametrize(
    ("offset", "beginning"),
    [
        (1, "rolled back: the first valid end"),
        (2, "discarded: given up at 2026-01-31 10:00:09.000 by EXPIRED (tx.discarded:0:0)"),
        (3, "undeliverable: the first valid end"),
        (4, "refused: this half is no transaction."),
        (5, "parked: committed, and waiting for topic orders.placed"),
        (10, "no transaction: its half is refused"),
        (6, "pending: no valid end has landed since 2026-01-31 10:00:00.000."),
    ],
)
def test_why_begins_with_the_status(ledger: Ledger, offset: int, beginning: str) -> None:
    assert why(ledger, offset)[0].startswith(beginning)


def test_without_tables_an_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"no ledger in .*`txresolver up` makes it"):
        Ledger(tmp_path).statuses()


def test_asking_loads_no_spark() -> None:
    code = "import sys, resolver.views; print('pyspark' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def run(*arguments: str | int | Path) -> str:
    done = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_writes_json_lines_of_json_and_csv(home: Path) -> None:
    listed = json.loads(run("list", "--pending", "--home", home, "-o", "json"))
    assert [row["id"] for row in listed] == ["0:5", "0:6", "0:7"]
    lines = run("list", "--status", "commit", "--home", home, "-o", "jsonl").splitlines()
    assert {json.loads(line)["id"] for line in lines} == {"0:0", "0:8", "0:9"}
    assert run("groups", "--tables", home / "tables", "-o", "csv").startswith("group,ended,")


def test_people_are_shown_fifty_rows_and_programs_get_all(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", half=[half(0, offset) for offset in range(60)])
    shown = run("list", "--home", tmp_path)
    assert shown.count("PENDING") == 50
    assert len(run("list", "--home", tmp_path, "-o", "jsonl").splitlines()) == 60
    assert len(run("list", "--home", tmp_path, "-o", "csv", "--limit", 3).splitlines()) == 4


def test_a_pipe_gets_whole_lines_on_a_narrow_terminal_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "4f1c9a2e-" * 8
    write_tables(tmp_path / "tables", half=[half(0, 0, transaction_id=long)])
    monkeypatch.setenv("COLUMNS", "40")
    assert long in run("list", "--home", tmp_path)


def test_ids_that_anybody_may_write_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", half=[half(0, 0, transaction_id="\x1b[2Jx")])
    for command in (["list"], ["show", "0:0"]):
        shown = run(*command, "--home", tmp_path)
        assert "\x1b[2J" not in shown and "x1b" in shown


def test_a_time_that_is_out_of_reach_is_refused(home: Path) -> None:
    done = CliRunner().invoke(app, ["list", "--home", str(home), "--since", "999999d"])
    assert isinstance(done.exception, SettingsError)


def test_bodies_are_shown_only_on_request(home: Path) -> None:
    for form in ("text", "json"):
        assert "secret" not in run("show", "0:0", "--home", home, "-o", form)
        assert "secret" in run("show", "0:0", "--home", home, "-o", form, "--body")


def test_each_command_shows_a_text(home: Path) -> None:
    assert "UNDELIVERABLE" in run("status", "--home", home)
    assert "CONFLICTING_END" in run("failures", "--home", home)
    assert "tx.op:0:4" in run("show", "tx-0-0", "--home", home)
    assert "pending: no valid end" in run("why", "0:7", "--home", home)
    assert "ROLLBACK" in run("diff", "2026-01-01", "--home", home)
    assert "No transaction" in run("status", "--home", home, "--at", "2026-01-01")


def test_outcomes_that_landed_without_their_halves_hide_no_pending_one(tmp_path: Path) -> None:
    """Land began after Kafka had deleted old halves; it keeps outcomes for longer."""
    write_tables(
        tmp_path / "tables",
        half=[half(0, offset) for offset in range(5, 10)],
        resolution=[outcome(0, offset, "COMMIT", source_offset=offset) for offset in range(9)],
    )
    assert ids(Ledger(tmp_path).pending()) == [9]


def test_a_malformed_half_without_a_group_hides_no_pending_one(tmp_path: Path) -> None:
    nameless: dict[str, Any] = {"transaction_id": None, "group": None, "topic": None}
    refused = {**identity(0, 0), **nameless, "refused_topic": "tx.half", "refused_offset": 0}
    write_tables(
        tmp_path / "tables",
        half=[half(0, 0, **nameless), half(0, 1)],
        quarantine=[{**refused, "offset": None, "reason": "MALFORMED_HALF"}],
    )
    assert ids(Ledger(tmp_path).pending()) == [1]
