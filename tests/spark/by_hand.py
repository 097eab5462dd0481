"""A ledger of records that were made by hand: their rows are made as land's, without Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from resolver.ledger import HEADERS, TABLES
from resolver.protocol import Names, Record
from tests.support.tables import leave_checksums, time_at, write_tables

RECORD = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    f"headers {HEADERS}"
)
NAMES = Names("tx.")
Row = dict[str, Any]


class ByHand:
    """Records in the order in which they are stored, each at a time in seconds."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}
        self._stored: list[tuple[Any, ...]] = []
        self._ends: Counter[tuple[str, int]] = Counter()

    def store(self, record: Record, seconds: float) -> int:
        """Store a record; return its offset."""
        place = (record.topic, max(record.partition, 0))
        offset = self._ends[place]
        self._ends[place] += 1
        headers = [(name, value and bytearray(value)) for name, value in record.headers]
        key, value = (one and bytearray(one) for one in (record.key, record.value))
        self._stored.append((*place, offset, time_at(seconds), key, value, headers or None))
        return offset

    def land(self, spark: SparkSession) -> None:
        """Make the rows of all tables."""
        records = spark.createDataFrame(self._stored, RECORD).coalesce(1)
        for table in TABLES:
            rows = table.rows(records.where(table.takes(records["topic"], NAMES)))
            self.rows[table.name] = [_plain(row.asDict(recursive=True)) for row in rows.collect()]

    def written(self, folder: Path, *changes: Callable[[dict[str, list[Row]]], None]) -> str:
        """Write the tables below a folder, with some changes; return the folder."""
        rows = {name: [dict(row) for row in some] for name, some in self.rows.items()}
        for change in changes:
            change(rows)
        write_tables(folder, **rows)
        leave_checksums(folder)
        return str(folder)


def _plain(row: Row) -> Row:
    """Return a row as others than Spark have it: Spark returns times in the machine's zone."""
    return {
        name: value.astimezone(timezone.utc) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
