"""Erasure from the tables: every copy goes, older versions too, and all else stays as it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from resolver.errors import OperationError
from resolver.operations import Erasure, Operation, OperationTable
from resolver.operations.records import records_of
from resolver.operations.table import SCHEMA
from resolver.protocol import Act, HalfId, Names
from resolver.protocol.names import ERASED, RESUMES
from resolver.settings import Settings
from resolver.views import Ledger
from tests.support.tables import Row, half, identity, outcome, time_at, write_tables

SECRET = b"a secret"
COPIES = ("half", "check", "discarded", "parked", "quarantine")


def headers(*pairs: tuple[str, bytes | None]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in pairs]


def message(offset: int, body: bytes = SECRET, **changes: Any) -> Row:
    own = headers(("TRAN_MSG", b"true"), ("name", SECRET), ("none", None))
    content = {"key": SECRET, "value": body, "headers": own}
    return {**half(0, offset), **content, **changes}


def copy_of(row: Row, **changes: Any) -> Row:
    named = identity(row["queue"], row["offset"])
    content = {name: row[name] for name in ("key", "value", "headers")}
    return {**named, **content, **changes}


def refusal_of(row: Row) -> Row:
    place = {"offset": None, "refused_topic": "tx.half", "refused_offset": row["offset"]}
    return copy_of(row, **place, reason="NO_PERMISSION")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Messages 0 and 1 of the same files, each in all tables; 1 was resumed."""
    one = message(0)
    other = message(1, b"another", key=b"k", headers=headers(("a", None), (RESUMES, b"0:9")))
    both = (one, other)
    write_tables(
        tmp_path,
        half=both,
        check=[copy_of(row, checks=1) for row in both],
        discarded=[copy_of(row, reason="EXPIRED") for row in both],
        parked=[copy_of(row, outcome="COMMIT", decided_at=time_at(1)) for row in both],
        quarantine=[refusal_of(row) for row in both],
        resolution=[outcome(0, 0, "COMMIT"), outcome(0, 1, "DISCARD")],
    )
    return tmp_path


def erasure(tables: Path, *offsets: int) -> tuple[Erasure, Operation]:
    halves = [HalfId(0, offset) for offset in offsets]
    operation = Operation.begin(Act.ERASE, "", "ada", "asked for", halves, time_at(99))
    return Erasure(operation, Ledger(tables=tables), Settings()), operation


def nobody(_: int) -> None:
    """Hear nothing of the progress."""


def with_the_secret(tables: Path) -> set[str]:
    """The tables of which any file on disk has the secret, whatever version reads the file."""
    return {
        file.relative_to(tables).parts[0]
        for file in tables.rglob("*.parquet")
        if any(SECRET in _bytes_of(row) for row in pq.read_table(file).to_pylist())
    }


def _bytes_of(row: Row) -> list[bytes | None]:
    values = [header["value"] for header in row["headers"] or []]
    return [row["key"], row["value"], *values]


def rows(tables: Path, table: str) -> list[Row]:
    read: list[Row] = DeltaTable(tables / table).to_pyarrow_table().to_pylist()
    return sorted(read, key=lambda row: row["source_offset"])


def logs(tables: Path) -> Iterator[dict[str, Any]]:
    for file in tables.rglob("_delta_log/*.json"):
        yield from map(json.loads, file.read_text().splitlines())


def test_no_file_has_the_message_and_the_rows_beside_stay_as_they_are(tables: Path) -> None:
    assert with_the_secret(tables) == set(COPIES)
    before = {table: rows(tables, table) for table in COPIES}
    job, operation = erasure(tables, 0)
    assert job.run(nobody) == 1
    assert with_the_secret(tables) == set()
    for table in COPIES:
        gone, stayed = rows(tables, table)
        marked = headers((ERASED, operation.id.encode()))
        assert gone == {**before[table][0], "key": None, "value": None, "headers": marked}
        assert stayed == before[table][1]
    assert not any(SECRET.decode() in json.dumps(line) for line in logs(tables))


def test_the_table_is_otherwise_what_land_has_made(tables: Path) -> None:
    def made() -> tuple[Any, ...]:
        table = DeltaTable(tables / "half")
        protocol = table.protocol()
        return (
            table.schema().to_json(),
            table.metadata().partition_columns,
            table.metadata().configuration,
            (protocol.min_reader_version, protocol.min_writer_version),
        )

    before = made()
    erasure(tables, 0)[0].run(nobody)
    assert made() == before
    assert made()[-1] == (1, 2)


def test_a_message_that_was_resumed_is_still_known_to_be(tables: Path) -> None:
    job, operation = erasure(tables, 1)
    job.run(nobody)
    marked = headers((ERASED, operation.id.encode()), (RESUMES, b"0:9"))
    assert rows(tables, "half")[1]["headers"] == marked


def test_begun_again_it_changes_nothing_more(tables: Path) -> None:
    job, _ = erasure(tables, 0)
    job.run(nobody)
    versions = Ledger(tables=tables).versions
    assert job.run(nobody) == 1
    assert Ledger(tables=tables).versions == versions


def test_a_file_that_the_log_does_not_know_goes_only_when_it_is_old(tables: Path) -> None:
    """Land writes a file, and adds it to the log a moment later."""
    [file] = (tables / "check").rglob("*.parquet")
    late = file.with_name("part-late.parquet")
    shutil.copy(file, late)
    job, _ = erasure(tables, 0)
    job.run(nobody)
    assert late.exists() and not file.exists()
    os.utime(late, (0, 0))
    job.run(nobody)
    assert not late.exists()


def test_stopped_after_the_rewriting_the_old_files_go_when_it_is_begun_again(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, operation = erasure(tables, 0)

    def stop(*_: Any) -> None:
        raise OSError("no disk")

    with monkeypatch.context() as broken:
        broken.setattr("resolver.operations.erasure._drop_old_files", stop)
        with pytest.raises(OperationError, match=f"continue {operation.id}"):
            job.run(nobody)
    assert with_the_secret(tables) == set(COPIES)
    job.run(nobody)
    assert with_the_secret(tables) == set()


@pytest.mark.parametrize("act", [Act.RESUME, Act.REPLAY])
def test_an_erased_message_is_neither_brought_back_nor_replayed(tables: Path, act: Act) -> None:
    """Also by an operation that began before the erasure."""
    earlier = Operation.begin(act, "again", "bob", "x", [HalfId(0, 0)], time_at(98))
    erasure(tables, 0)[0].run(nobody)
    with pytest.raises(OperationError, match="the message of 0:0 was erased"):
        records_of(earlier, earlier.halves, Ledger(tables=tables), Names())


def test_the_table_of_operations_knows_what_is_erased(tables: Path) -> None:
    _, operation = erasure(tables, 0)
    table = OperationTable(str(tables))
    table.begin(operation)
    assert table.erased() == {"0:0": operation.id}


def test_a_table_of_operations_with_other_comments_is_written_on(tables: Path) -> None:
    """As another version has made it."""
    other = [field.with_metadata({"comment": "another"}) for field in SCHEMA]
    DeltaTable.create(tables / "operation", pa.schema(other))
    table = OperationTable(str(tables))
    _, operation = erasure(tables, 0)
    table.begin(operation)
    table.end(operation, 1, time_at(100))
    assert table.find(operation.id) == (operation, 1)
