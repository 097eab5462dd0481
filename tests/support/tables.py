"""Small ledgers made by hand, without a JVM: rows as dicts, columns that are left out are null."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from resolver.ledger import HEADERS, TABLES
from resolver.ledger.table import PARTITION_COLUMN, Table

Row = Mapping[str, Any]
START = datetime(2026, 1, 31, 10, 0, tzinfo=timezone.utc)
#: Arrow's type of each type of Spark that the tables have.
ARROW_TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
    HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def time_at(seconds: float) -> datetime:
    """The time some seconds after `START`."""
    return START + timedelta(seconds=seconds)


def write_tables(folder: Path, **rows: Sequence[Row]) -> None:
    """Add rows to the tables below a folder; a row's offset is its number unless it has one."""
    for table in TABLES:
        filled = [
            _filled(table, number, row) for number, row in enumerate(rows.get(table.name, ()))
        ]
        # With comments, as land makes the tables: an engine may stumble over them.
        schema = pa.schema(
            [
                pa.field(field.name, ARROW_TYPES[field.type], metadata={"comment": field.comment})
                for field in table.fields
            ]
        )
        path = folder / table.name
        if not path.exists():  # land makes empty tables first
            _append(path, pa.Table.from_pylist([], schema))
        _append(path, pa.Table.from_pylist(filled, schema))


def leave_checksums(folder: Path) -> None:
    """Leave a checksum file beside the last commit of each table, as Spark's Delta does.

    Whoever has Spark reads such tables without Delta's job for each log.
    """
    for table in TABLES:
        delta_table = DeltaTable(folder / table.name)
        files = pa.table(delta_table.get_add_actions(flatten=True))
        sizes = files["size_bytes"].to_pylist()
        checksum = {"numFiles": len(sizes), "tableSizeBytes": sum(sizes), "setTransactions": []}
        file = folder / table.name / "_delta_log" / f"{delta_table.version():020}.crc"
        file.write_text(json.dumps(checksum), encoding="utf-8")


def _append(path: Path, rows: pa.Table) -> None:
    write_deltalake(path, rows, mode="append", partition_by=[PARTITION_COLUMN])


def _filled(table: Table, number: int, row: Row) -> Row:
    time = row.get("source_timestamp") or row.get("decided_at") or row.get("stored_at") or START
    source = {
        "source_topic": f"tx.{table.topic}",
        "source_partition": 0,
        "source_offset": number,
        "source_timestamp": time,
        PARTITION_COLUMN: time.date(),
    }
    return {**source, **row}


def half(queue: int, offset: int, seconds: float = 0, **changes: Any) -> Row:
    """A row of `half`; the transaction id is `tx-QUEUE-OFFSET`."""
    source = {"source_partition": queue, "source_offset": offset}
    return {**identity(queue, offset), "stored_at": time_at(seconds), **source, **changes}


def outcome(queue: int, offset: int, word: str, seconds: float = 1, **changes: Any) -> Row:
    """A row of `resolution`."""
    times = {
        "stored_at": time_at(0),
        "ended_at": time_at(seconds - 0.5),
        "decided_at": time_at(seconds),
        "source_timestamp": time_at(seconds + 0.25),
    }
    own = {"outcome": word, "source": "END", "op_offset": offset, "checks": 0, "answered": 0}
    return {**identity(queue, offset), **own, **times, **changes}


def identity(queue: int, offset: int) -> dict[str, Any]:
    return {
        "queue": queue,
        "offset": offset,
        "transaction_id": f"tx-{queue}-{offset}",
        "group": "orders",
        "topic": "orders.placed",
    }
