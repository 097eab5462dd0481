"""The questions about fast commits, on a small ledger; older tables are asked the same."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from resolver.ledger import TABLES
from resolver.operations.maintenance import maintain
from resolver.settings import Settings
from resolver.views import HalfId, Ledger
from resolver.views.view import complete
from resolver.views.why import sentences
from tests.support.fast_tables import FAST_ID, LATER, land_newer, make_older, write_fast


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    write_fast(tmp_path / "tables")
    return Ledger(tmp_path)


def test_a_transaction_says_whether_its_producer_delivered_the_message(ledger: Ledger) -> None:
    rows = {row["offset"]: row for row in ledger.transactions().to_pylist()}
    assert {offset: row["delivery"] for offset, row in rows.items() if row["delivery"]} == {
        0: "FAST"
    }
    assert rows[0]["latency_ms"] is None
    assert rows[1]["latency_ms"] == 750
    (pending,) = ledger.pending().to_pylist()
    assert (pending["offset"], pending["fast_id"]) == (2, FAST_ID)


def test_rates_count_fast_commits_and_latency_leaves_them_out(ledger: Ledger) -> None:
    (rate,) = ledger.rates().to_pylist()
    assert (rate["begun"], rate["committed"], rate["fast"], rate["rolled_back"]) == (6, 4, 1, 1)
    (latency,) = ledger.latency().to_pylist()
    assert latency["ended"] == 4


def test_the_timeline_has_the_first_revocation_and_who_delivered(ledger: Ledger) -> None:
    def told(offset: int) -> list[tuple[str, str, str | None, int | None]]:
        rows = ledger.timeline(HalfId(0, offset)).to_pylist()
        return [(row["event"], row["word"], row["detail"], row["op_offset"]) for row in rows]

    assert told(0) == [
        ("half", "STORED", "orders.placed", None),
        ("delivered", "COMMIT_MESSAGE", None, 0),
        ("outcome", "COMMIT", "END", 0),
        ("revoked", "REVOKED", FAST_ID, 6),
    ]
    assert ("revoked", "UNKNOWN", None, 3) in told(3)
    assert not any(event == "revoked" for event, *_ in told(4))


def why(ledger: Ledger, offset: int) -> list[str]:
    half_id = HalfId(0, offset)
    events = ledger.timeline(half_id).to_pylist()
    return list(sentences(events, ledger.pending_row(half_id, events)))


def test_why_says_who_delivered_and_what_an_end_waited_for(ledger: Ledger) -> None:
    first = "committed: the first valid end was the application's COMMIT"
    delivered, _ = why(ledger, 0)
    assert delivered == (
        f"{first}, which delivered the message itself, at 2026-01-31 10:00:00.500 (tx.op:0:0)."
    )
    _, waited, _ = why(ledger, 1)
    assert waited == (
        "It waited until the fast id was revoked at 2026-01-31 10:00:08.000 (tx.op:0:6)."
    )
    _, waited, _ = why(ledger, 3)
    assert waited == (
        "It waited until its producer gave the fast commit up at 2026-01-31 10:00:00.800 "
        "(tx.op:0:3)."
    )
    assert len(why(ledger, 4)) == len(why(ledger, 5)) == 2


def test_why_says_what_a_pending_one_waits_for(tmp_path: Path, ledger: Ledger) -> None:
    assert why(ledger, 2)[-1].endswith("by the settings, or earlier if the group is back.")
    write_fast(tmp_path / "before" / "tables", is_revoked=False)
    before = Ledger(tmp_path / "before")
    assert why(before, 1) == [
        "pending: the application's COMMIT at 2026-01-31 10:00:00.600 has landed (tx.op:0:1).",
        f"It waits until fast id {FAST_ID} is revoked.",
    ]
    assert why(before, 2)[-1] == (
        "The next check is due at 2026-01-31 10:00:06.000, by the settings, once fast id "
        f"{FAST_ID} is revoked."
    )


def test_tables_that_an_older_version_made_are_read_and_so_is_their_past(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    write_fast(tables)
    newer = Ledger(tmp_path).versions
    make_older(tables)
    older = Ledger(tmp_path)
    assert {row["delivery"] for row in older.transactions().to_pylist()} == {None}
    assert [row["offset"] for row in older.pending().to_pylist()] == [2]
    assert older.timeline(HalfId(0, 0)).num_rows == 3
    assert older.latency().to_pylist()[0]["ended"] == 5
    assert [*older.sql("SELECT fast_id FROM half").to_pydict()["fast_id"]] == [None] * 6
    assert older.diff(older.as_of(newer)).num_rows == 0
    now = older.as_of(newer)
    assert now.diff(now.as_of(older.versions)).num_rows == 0


def test_old_and_new_files_of_a_table_are_read_and_put_together(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    write_fast(tables)
    make_older(tables)
    land_newer(tables, 6)

    def deliveries() -> list[str | None]:
        rows = Ledger(tmp_path).transactions().to_pylist()
        return [row["delivery"] for row in rows if row["status"] == "COMMIT"]

    assert deliveries() == ["FAST", None, None, None, None]
    done = maintain(Ledger(tmp_path), Settings(), datetime.now(timezone.utc))
    assert {one.table for one in done if one.compacted} == {"half", "resolution"}
    assert deliveries() == ["FAST", None, None, None, None]


def test_the_columns_that_older_tables_lack_are_columns_of_the_tables() -> None:
    """Views know nothing of Spark, in which the tables are defined."""
    for table in TABLES:
        columns = {field.name: field.type for field in table.fields}
        later = LATER.get(table.name, ())
        sql = complete(table.name, "t", set(columns) - set(later)) or ""
        assert sql.count("cast(NULL AS ") == len(later)
        assert all(f"cast(NULL AS {columns[name]}) AS {name}" in sql for name in later)
