"""Maintenance of the tables: old days go, what pending transactions need stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from resolver.cli import app
from resolver.errors import SettingsError
from resolver.operations import maintain
from resolver.settings import Settings
from resolver.views import Ledger
from tests.support.tables import Row, half, identity, outcome, time_at, write_tables

DAY = 86_400
#: All tables of a day older than this go.
THREE_DAYS = Settings(
    keep_half_days=3,
    keep_op_days=3,
    keep_check_days=3,
    keep_discarded_days=3,
    keep_quarantine_days=3,
    keep_parked_days=3,
    keep_resolution_days=3,
)


def of_day(day: int) -> dict[str, list[Row]]:
    """A discarded transaction of a day, in all tables; its offset is the day."""
    when = time_at(day * DAY)
    place = {"source_timestamp": when, "source_offset": day}
    copied = {**identity(0, day), **place, "checks": 1}
    op = {"queue": 0, "stored_at": when, "group": "orders", **place}
    ended = {"stored_at": when, "decided_at": when, **place}
    return {
        "half": [half(0, day, day * DAY)],
        "op": [{**op, "offsets": [day], "from_check": True, "state": "UNKNOWN"}],
        "check": [copied],
        "discarded": [{**copied, "reason": "CHECK_MAX"}],
        "quarantine": [{**copied, "reason": "LATE_END", "element": 0}],
        "parked": [{"released_topic": "a", "released_upto": day, **place}],
        "resolution": [{**outcome(0, day, "DISCARD"), **ended}],
    }


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Days 0 to 9, each in a file of each table."""
    days = [of_day(day) for day in range(10)]
    write_tables(tmp_path, **{name: [day[name][0] for day in days] for name in days[0]})
    return tmp_path


def maintained(tables: Path, settings: Settings, day: int, dry_run: bool = False) -> dict[str, Any]:
    ledger = Ledger(tables=tables, settings=settings)
    done = maintain(ledger, settings, time_at(day * DAY), dry_run)
    return {one.table: (one.removed, one.compacted) for one in done}


def days_left(tables: Path) -> dict[str, list[int]]:
    left = {}
    for table in ("half", "op", "check", "discarded", "quarantine", "parked", "resolution"):
        read = DeltaTable(tables / table).to_pyarrow_table(columns=["source_timestamp"])
        times = read["source_timestamp"].to_pylist()
        left[table] = sorted((time - time_at(0)).days for time in times)
    return left


def oldest_days(tables: Path) -> set[int]:
    """Return the oldest day that is left of any table; outcomes are kept for one more."""
    left = days_left(tables)
    return {days[0] + (table == "resolution") for table, days in left.items()}


def test_without_settings_no_day_goes(tables: Path) -> None:
    assert set(maintained(tables, Settings(), 100).values()) == {(0, 0)}
    assert all(days == list(range(10)) for days in days_left(tables).values())


def test_days_that_are_too_old_go_from_each_table_by_its_setting(tables: Path) -> None:
    settings = Settings(keep_half_days=3, keep_op_days=3, keep_check_days=5)
    done = maintained(tables, settings, 9)
    assert (done["half"], done["check"], done["resolution"]) == ((6, 0), (4, 0), (0, 0))
    left = days_left(tables)
    assert left["half"] == left["op"] == [6, 7, 8, 9]
    assert left["check"] == [4, 5, 6, 7, 8, 9]
    assert left["resolution"] == list(range(10))
    assert Ledger(tables=tables).pending().num_rows == 0


def test_nothing_goes_that_a_pending_or_parked_transaction_needs(tables: Path) -> None:
    write_tables(tables, half=[half(0, 20, 2 * DAY + 5)])
    maintained(tables, THREE_DAYS, 100)
    assert oldest_days(tables) == {2}
    parked = {**identity(0, 20), "topic": "b", "decided_at": time_at(5 * DAY), "source_offset": 99}
    write_tables(tables, parked=[parked])
    maintained(tables, THREE_DAYS, 100)
    assert oldest_days(tables) == {2}
    write_tables(tables, resolution=[outcome(0, 20, "COMMIT", 6 * DAY, source_offset=20)])
    maintained(tables, THREE_DAYS, 9)
    assert oldest_days(tables) == {6}


def test_files_of_past_days_are_put_together_and_those_of_today_are_left(tables: Path) -> None:
    for _ in range(2):
        write_tables(tables, **of_day(9))
        write_tables(tables, **of_day(8))
    before = DeltaTable(tables / "half").to_pyarrow_table().num_rows
    assert maintained(tables, Settings(), 9, dry_run=True)["half"] == (0, 1)
    assert maintained(tables, Settings(), 9)["half"] == (0, 1)
    assert maintained(tables, Settings(), 9)["half"] == (0, 0)
    table = DeltaTable(tables / "half")
    files = [uri for uri in table.file_uris() if f"date={time_at(8 * DAY).date()}" in uri]
    assert len(files) == 1
    assert table.to_pyarrow_table().num_rows == before
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)


def test_a_dry_run_removes_nothing(tables: Path) -> None:
    assert maintained(tables, THREE_DAYS, 9, dry_run=True)["half"] == (6, 0)
    assert all(days == list(range(10)) for days in days_left(tables).values())


def test_begun_again_after_a_kill_it_does_the_rest(tables: Path) -> None:
    """A kill between two tables leaves outcomes without halves, and no half without its outcome."""
    ledger = Ledger(tables=tables, settings=THREE_DAYS)
    steps = maintain(ledger, THREE_DAYS, time_at(9 * DAY))
    assert next(steps).table == "half"
    steps.close()  # type: ignore[attr-defined]
    assert Ledger(tables=tables).pending().num_rows == 0
    maintained(tables, THREE_DAYS, 9)
    assert oldest_days(tables) == {6}


def test_less_of_a_half_than_the_half_is_refused() -> None:
    with pytest.raises(SettingsError, match="keep_op_days is 2, and keep_half_days is 3"):
        Settings(keep_half_days=3, keep_op_days=2)
    with pytest.raises(SettingsError, match="keep_check_days is 2, and keep_half_days is 0"):
        Settings(keep_check_days=2)


def test_the_command_says_what_it_has_done(tables: Path) -> None:
    named = ["--set=keep_half_days=1"]
    given = ["maintain", "--tables", str(tables), "-o", "json", *named]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    rows = {row["table"]: row for row in json.loads(done.stdout)}
    assert (rows["half"]["removed"], rows["op"]["removed"]) == (10, 0)
