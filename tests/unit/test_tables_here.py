"""Tables on this machine as deltalake reads them, beside a checksum file as Delta leaves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from resolver.errors import DamagedTable
from resolver.ledger.here import folder_here, open_here

HERE = "file:///"


@pytest.mark.parametrize(
    ("path", "default", "folder"),
    [
        ("/home/tables/op", HERE, "/home/tables/op"),
        ("file:///home/tables/op", "hdfs://node", "/home/tables/op"),
        ("file:/home/tables/op", HERE, "/home/tables/op"),
        ("/home/tables/op", "hdfs://node", None),
        ("s3://lake/tables/op", HERE, None),
        ("file://host/tables/op", HERE, None),
    ],
)
def test_a_path_on_this_machine_is_a_folder(path: str, default: str, folder: str | None) -> None:
    assert folder_here(path, default) == folder


@pytest.mark.parametrize("name", ["a b", "ü", "x%41", "a%20b", "a#b", "a?b", "a[1]", "a\\b", "*"])
def test_what_the_readers_take_in_different_ways_is_left_to_spark(name: str) -> None:
    assert folder_here(f"/home/{name}/op", HERE) is None


class Log:
    """A table with a row of `land`'s in each commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for number in range(3):
            self.append(number)
        self.check()

    def append(self, number: int) -> None:
        took = CommitProperties(app_transactions=[Transaction("land", number, 1_000 + number)])
        rows = pa.table({"offset": [number], "date": ["2026-11-26"]})
        write_deltalake(
            self.folder, rows, partition_by=["date"], mode="append", commit_properties=took
        )

    def rewrite(self) -> None:
        """As an erasure does: as many files as before, of another size."""
        DeltaTable(self.folder).update({"offset": "offset + 1000000"})

    def check(self, **others: Any) -> None:
        """Write the checksum file of the last commit."""
        table = DeltaTable(self.folder)
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        last = table.transaction_version("land") or 0
        checksum = {
            "numFiles": len(files),
            "tableSizeBytes": sum(file["size_bytes"] for file in files),
            "setTransactions": [{"appId": "land", "version": last, "lastUpdated": 1_000 + last}],
        }
        self.of(table.version(), "crc").write_text(json.dumps(checksum | others))

    def of(self, version: int, kind: str = "json") -> Path:
        return self.folder / "_delta_log" / f"{version:020}.{kind}"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "op")


def test_a_whole_table_has_its_version_and_its_writers(log: Log) -> None:
    table = open_here(str(log.folder))
    assert table is not None
    assert (table.version, table.writers) == (2, {"land": (2, 1_002)})


def test_where_no_table_is_or_nothing_can_be_compared_spark_decides(log: Log) -> None:
    assert open_here(str(log.folder / "nothing")) is None
    log.check(setTransactions=None)  # as Delta does where there are too many
    assert open_here(str(log.folder)) is None
    log.of(2, "crc").unlink()
    assert open_here(str(log.folder)) is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_where_a_commit_is_cut_short_spark_decides(log: Log, version: int) -> None:
    file = log.of(version)
    file.write_bytes(file.read_bytes()[:-40])
    assert open_here(str(log.folder)) is None


@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_that_was_emptied_is_missed(log: Log, version: int) -> None:
    log.of(version).write_bytes(b"")
    with pytest.raises(DamagedTable, match="a commit is gone from its log"):
        open_here(str(log.folder))


def test_a_rewriting_that_was_emptied_is_missed_by_its_bytes(log: Log) -> None:
    log.rewrite()
    log.append(3)
    log.check()
    assert open_here(str(log.folder)) is not None
    log.of(3).write_bytes(b"")
    with pytest.raises(DamagedTable, match="a commit is gone from its log"):
        open_here(str(log.folder))


def test_a_last_commit_that_is_gone_is_missed_by_its_checksum_file(log: Log) -> None:
    log.of(2).unlink()
    with pytest.raises(DamagedTable, match="commit 2 is gone from its log"):
        open_here(str(log.folder))
