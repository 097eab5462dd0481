"""The definition of a Delta table: its columns, and how each is read from a Kafka record."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from ..protocol import Names

#: Kafka headers in their order; names may repeat, values may be null.
HEADERS = "array<struct<key:string,value:binary>>"
PARTITION_COLUMN = "date"


@dataclass(frozen=True)
class Field:
    """One column: its type, its meaning, and how it is read from a record.

    `read` is called when rows are made: a Spark expression needs a session.
    """

    name: str
    type: str
    comment: str
    read: Callable[[], Column]


def _of_record(name: str) -> Callable[[], Column]:
    return lambda: F.col(f"record.{name}")


#: Every table's last columns: the record's place in Kafka, which is the row's identity, and the
#: record itself, bit for bit.
RECORD_FIELDS = (
    Field("source_topic", "string", "Topic of the record", _of_record("topic")),
    Field("source_partition", "int", "Its partition", _of_record("partition")),
    Field("source_offset", "bigint", "Its offset there", _of_record("offset")),
    Field(
        "source_timestamp",
        "timestamp",
        "When Kafka stored it (UTC)",
        _of_record("timestamp"),
    ),
    Field("key", "binary", "The record's key, untouched", _of_record("key")),
    Field("value", "binary", "The record's value, untouched", _of_record("value")),
    Field("headers", HEADERS, "All its headers, in their order", _of_record("headers")),
    Field(
        PARTITION_COLUMN,
        "date",
        "Day of source_timestamp (UTC); the table is partitioned by it",
        lambda: F.to_date(F.col("record.timestamp")),
    ),
)


@dataclass(frozen=True)
class Table:
    """A Delta table of one kind of record.

    `topic` is the topic's name after the prefix. A name that ends in a dot stands for every topic
    that begins with it. `prepare` adds columns that several fields read, such as parsed JSON, or
    leaves records out.
    """

    name: str
    topic: str
    comment: str
    own_fields: tuple[Field, ...]
    prepare: Callable[[DataFrame], DataFrame] = lambda records: records

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.own_fields + RECORD_FIELDS

    @property
    def schema(self) -> StructType:
        """Return the table's schema, with the columns' comments."""
        return StructType(
            [
                StructField(
                    field.name, DataType.fromDDL(field.type), True, {"comment": field.comment}
                )
                for field in self.fields
            ]
        )

    def rows(self, records: DataFrame) -> DataFrame:
        """Turn records, as Spark's Kafka source with headers gives them, into the table's rows.

        A value that can't be read is null, and no value raises. No record is left out, except
        fences of the half topic.
        """
        wrapped = records.select(F.struct("*").alias("record")).transform(self.prepare)
        return wrapped.select(
            *[field.read().cast(field.type).alias(field.name) for field in self.fields]
        )

    def complete(self, rows: DataFrame) -> DataFrame:
        """Add the columns that a table of an older version lacks: they are null."""
        missing = [field for field in self.own_fields if field.name not in rows.columns]
        return rows.withColumns({field.name: F.lit(None).cast(field.type) for field in missing})

    def topic_pattern(self, names: Names) -> str:
        """Return a regular expression for the names of the table's topics."""
        ending = ".+" if self.topic.endswith(".") else ""
        return re.escape(names.prefix + self.topic) + ending

    def holds(self, topic: str, names: Names) -> bool:
        """Whether records of `topic` land in this table."""
        own = names.prefix + self.topic
        return topic.startswith(own) if own.endswith(".") else topic == own

    def takes(self, topic: Column, names: Names) -> Column:
        """Do the same as `holds`, in Spark."""
        own = names.prefix + self.topic
        return topic.startswith(own) if own.endswith(".") else topic == own
