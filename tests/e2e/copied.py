"""A copy of a story's tables, in which rows can be changed, removed and repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.support.world import Sent

from .ledger_story import Story

Row = dict[str, Any]


class Copy:
    """A copy of a story's tables, to be damaged: rows in memory until they are saved."""

    def __init__(self, story: Story, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(story.tables, folder)
        self._rows: dict[str, list[Row]] = {}

    def change(self, table: str, sent: Sent, **values: Any) -> None:
        """Change columns of a transaction's rows; a value is new, or what makes it of the old."""
        self.change_where(table, of(sent), **values)

    def change_where(self, table: str, where: Callable[[Row], bool], **values: Any) -> None:
        changed = [_changed_row(row, values) if where(row) else row for row in self._rows_of(table)]
        assert changed != self._rows[table]
        self._rows[table] = changed

    def remove(self, table: str, sent: Sent) -> None:
        self.remove_where(table, of(sent))

    def remove_where(self, table: str, where: Callable[[Row], bool]) -> None:
        self._rows[table] = [row for row in self._rows_of(table) if not where(row)]

    def last_end(self, sent: Sent) -> tuple[int, int]:
        """Return the last op that names a transaction: its offset, and where in it that is."""
        return max(
            (int(row["source_offset"]), row["offsets"].index(sent.offset))
            for row in self._rows_of("op")
            if row["queue"] == sent.queue and sent.offset in (row["offsets"] or [])
        )

    def first_op(self, queue: int) -> Row:
        """Return the first row of a queue's ops: a fence, written before there was any half."""
        return min(
            (row for row in self._rows_of("op") if row["queue"] == queue),
            key=lambda row: int(row["source_offset"]),
        )

    def last_op(self, sent: Sent) -> int:
        return self.last_end(sent)[0]

    def repeat(self, table: str, sent: Sent, **values: Any) -> None:
        """Add a transaction's rows once more, with other values."""
        self.repeat_where(table, of(sent), **values)

    def repeat_where(self, table: str, where: Callable[[Row], bool], **values: Any) -> None:
        rows = self._rows_of(table)
        rows += [_changed_row(row, values) for row in rows if where(row)]

    def save(self) -> None:
        """Write the tables that were changed."""
        for name, rows in self._rows.items():
            table = DeltaTable(self.folder / name)
            schema = pa.schema(table.schema().to_arrow())
            write_deltalake(table, pa.Table.from_pylist(rows, schema), mode="overwrite")

    def _rows_of(self, table: str) -> list[Row]:
        if table not in self._rows:
            rows = DeltaTable(self.folder / table).to_pyarrow_table().to_pylist()
            self._rows[table] = rows
        return self._rows[table]


def _changed_row(row: Row, values: dict[str, Any]) -> Row:
    return row | {
        name: value(row[name]) if callable(value) else value for name, value in values.items()
    }


def of(sent: Sent) -> Callable[[Row], bool]:
    """Return what is true of a transaction's rows."""
    return lambda row: (row["queue"], row["offset"]) == (sent.queue, sent.offset)


def place_of(sent: Sent) -> Row:
    """Return what a row has that is about a transaction's place, itself far behind the others."""
    return {"queue": sent.queue, "offset": sent.offset, "source_offset": more(100_000)}


def as_if_of(sent: Sent) -> Row:
    """Return the same, with the transaction's id."""
    return {"transaction_id": sent.half.transaction_id, **place_of(sent)}


def more(increment: Any) -> Callable[[Any], Any]:
    """Return what adds to the old value."""
    return lambda value: value + increment
