"""The definition of a view: a question to the ledger that has a name, as one SQL text.

The text is standard SQL with Spark's names of functions. `{half}` stands for a table or for another
view, `{now_ms}` for the present time. So an engine has nothing of its own but the names of the
tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from string import Formatter

#: The tables of the ledger that views read.
TABLES = ("half", "op", "check", "discarded", "quarantine", "parked", "resolution")
#: Columns that tables made by older versions lack, with their types in SQL: they count as null.
_LATER_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "half": {"fast_id": "string"},
    "op": {"delivered": "boolean", "fast": "boolean", "fast_id": "string"},
    "resolution": {"delivery": "string"},
}
_COMPLETE = "SELECT *, {later} FROM {table}"


def complete(name: str, table: str, columns: Collection[str]) -> str | None:
    """Return SQL for all columns of the table `name`, which stands as `table` in SQL.

    Return None if it has them: `columns` are its own.
    """
    later = [
        f"cast(NULL AS {kind}) AS {column}"
        for column, kind in _LATER_COLUMNS.get(name, {}).items()
        if column not in columns
    ]
    return _COMPLETE.format(later=", ".join(later), table=table) if later else None


@dataclass(frozen=True)
class View:
    """A view: its columns with their meaning, and its SQL.

    A view without columns is a part of others. `time` is the column for a range of time, `order`
    how rows are listed. `chosen` is the part whose rows a filter picks: a sum is over these.
    """

    name: str
    comment: str
    sql: str
    columns: Mapping[str, str] = field(default_factory=dict)
    time: str | None = None
    order: str | None = None
    chosen: View | None = None


def expanded(sql: str, views: Mapping[str, View], values: Mapping[str, str]) -> str:
    """Return a text with each name replaced by its value, or else by its view's text."""
    return "".join(
        text + _standing_for(name, views, values) for text, name, _, _ in Formatter().parse(sql)
    )


def _standing_for(name: str | None, views: Mapping[str, View], values: Mapping[str, str]) -> str:
    if name is None:
        return ""
    if name in values:
        return values[name]
    return f"({expanded(views[name].sql.strip(), views, values)})"
