"""Rows for people and for programs: text, JSON, JSON lines, CSV."""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import typer

from ..protocol.record import printable


class Output(str, Enum):
    """The forms in which rows are written."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"


Row = Mapping[str, Any]

#: Columns that may take several lines if the terminal is narrow, and a column that is cut: the
#: beginning of a transaction id is enough to name it. The others keep their width.
_FOLDED, _CUT = ("topic", "place", "detail", "error"), ("transaction_id",)
#: Least width of these columns, and the width of output that goes to no terminal, in characters.
_NARROWEST, _WIDE = 12, 1_000


def write(rows: Sequence[Row], columns: Sequence[str], output: Output, empty: str) -> None:
    """Write rows to stdout; `columns` are those that people see, programs get all."""
    if output is Output.text:
        _write_text(rows, columns, empty)
    elif output is Output.json:
        typer.echo(json.dumps([_plain(row) for row in rows], indent=2))
    elif output is Output.jsonl:
        for row in rows:
            typer.echo(json.dumps(_plain(row)))
    else:
        writer = csv.DictWriter(sys.stdout, list(rows[0] if rows else columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(_plain(row) for row in rows)


def _write_text(rows: Sequence[Row], columns: Sequence[str], empty: str) -> None:
    if not rows:
        typer.echo(empty)
        return
    # Imported late: only people need it.
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        is_number = all(isinstance(row[name], int) or row[name] is None for row in rows)
        shrinks = name in _FOLDED + _CUT
        table.add_column(
            name,
            justify="right" if is_number else "left",
            no_wrap=not shrinks,
            min_width=_NARROWEST if shrinks else None,
            overflow="fold" if name in _FOLDED else "ellipsis",
        )
    for row in rows:
        table.add_row(*[_shown(row[name]) for name in columns])
    # Give a pipe whole lines: rich would take it for a terminal of 80 columns, or of as many as
    # COLUMNS says.
    width = None if sys.stdout.isatty() else _WIDE
    Console(highlight=False, markup=False, width=width).print(table)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%m-%d %H:%M:%S")
    return printable(str(value))


def _plain(row: Row) -> dict[str, object]:
    return {name: _json_value(value) for name, value in row.items()}


def _json_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, list):
        return [_json_value(entry) for entry in value]
    if isinstance(value, dict):
        return _plain(value)
    return value


def as_text(value: object) -> str:
    """Return a value as JSON, bytes as text."""
    return json.dumps(_json_value(value), ensure_ascii=False)


def _decoded(value: bytes) -> str:
    # Bytes that are no UTF-8 are in base64, behind a mark.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"
