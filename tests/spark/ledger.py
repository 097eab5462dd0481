"""A ledger under test: records written to a real broker, and the tables that they land in."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from chispa import assert_df_equality
from confluent_kafka import Message, Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from resolver.kafka.clients import admin_client, client_config
from resolver.kafka.topics import ensure_topics
from resolver.ledger import TABLES
from resolver.ledger.landing import land_query
from resolver.protocol import Names, Record
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import position_of

_COLUMNS = ("source_topic", "source_partition", "source_offset", "key", "value", "headers")
#: Where a record stands, and its key, value and headers: the values of these columns.
Stored = tuple[str, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@dataclass
class Ledger:
    """Writes records, lands them, and compares what is in the tables with what was written."""

    spark: SparkSession
    settings: Settings
    home: Path
    written: list[Stored] = field(default_factory=list)

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    @property
    def names(self) -> Names:
        return Names(self.settings.topic_prefix)

    def make_topics(self, *groups: str) -> None:
        ensure_topics(admin_client(self.settings), self.settings, groups)

    def write(self, *records: Record) -> None:
        """Write records and wait until Kafka has them."""
        producer = Producer(client_config(self.settings, **{"linger.ms": 5}))
        before = len(self.written)
        for record in records:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                headers=list(record.headers),
                on_delivery=self._note(record),
            )
        producer.flush(PATIENCE_SECONDS)
        assert len(self.written) == before + len(records)

    def _note(self, record: Record) -> Any:
        def note(error: object, message: Message) -> None:
            assert error is None, error
            place = position_of(message)
            self.written.append(
                (record.topic, *place, record.key, record.value, tuple(record.headers))
            )

        return note

    def query(self, available_now: bool = False) -> StreamingQuery:
        return land_query(self.spark, self.settings, self.tables, self.checkpoint, available_now)

    def land(self) -> None:
        """Land all that is stored now."""
        query = self.query(available_now=True)
        ended = query.awaitTermination(PATIENCE_SECONDS)
        query.stop()
        assert ended

    def forget_snapshots(self) -> None:
        """Let Delta know as much of the tables as in a new process: nothing."""
        jvm = self.spark._jvm
        assert jvm is not None
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return what anybody reads: by a reader that has nothing of Spark, and is quicker."""
        rows: list[dict[str, Any]] = DeltaTable(self.tables / table).to_pyarrow_table().to_pylist()
        return rows

    def landed(self) -> list[Stored]:
        return [stored(row) for table in TABLES for row in self.rows(table.name)]

    def assert_landed_once(self) -> None:
        """Everything that was written is in the tables, once and bit for bit; nothing else is."""
        assert Counter(self.landed()) == Counter(self.written)

    def assert_spark_reads_the_same(self) -> None:
        """Spark too finds in the tables what was written, once and bit for bit."""
        read = self.spark.read.format("delta")
        tables = (read.load(str(self.tables / table.name)) for table in TABLES)
        landed = reduce(DataFrame.unionAll, (table.select(*_COLUMNS) for table in tables))
        # Kafka's source has null where a record has no header.
        rows = [(*place, headers or None) for *place, headers in self.written]
        wanted = self.spark.createDataFrame(rows, landed.schema)
        assert_df_equality(landed, wanted, ignore_row_order=True, ignore_metadata=True)

    def version(self, table: str) -> int:
        """How many commits a table has had since it was made."""
        logs = (self.tables / table / "_delta_log").glob("*.json")
        return max(int(log.stem) for log in logs)


def stored(row: dict[str, Any]) -> Stored:
    headers = tuple((one["key"], one["value"]) for one in row["headers"] or [])
    place = (row["source_topic"], row["source_partition"], row["source_offset"])
    return (*place, row["key"], row["value"], headers)
