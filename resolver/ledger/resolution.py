"""The table `resolution`: the outcome of each transaction."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .reading import text, time_of
from .table import Field, Table

#: The fields of the record's JSON; times are in ms.
_BODY = """
    transaction_id string, queue int, offset bigint, outcome string, source string,
    group string, topic string, op_offset bigint, checks int, answered int,
    born_at bigint, stored_at bigint, ended_at bigint, decided_at bigint,
    batch_id bigint, query_id string, delivery string
"""


def _with_body(records: DataFrame) -> DataFrame:
    return records.withColumn("body", F.from_json(text(F.col("record.value")), _BODY))


def _of_body(name: str) -> Callable[[], Column]:
    return lambda: F.col(f"body.{name}")


def _time(name: str) -> Callable[[], Column]:
    return lambda: time_of(F.col(f"body.{name}"))


RESOLUTION = Table(
    name="resolution",
    topic="resolution",
    comment="Outcomes: one row for each transaction that ended.",
    prepare=_with_body,
    own_fields=(
        Field("queue", "int", "Queue of the half", _of_body("queue")),
        Field("offset", "bigint", "Offset of the half", _of_body("offset")),
        Field("transaction_id", "string", "The transaction's id", _of_body("transaction_id")),
        Field("group", "string", "The producer group", _of_body("group")),
        Field("topic", "string", "Where a commit is delivered", _of_body("topic")),
        Field("outcome", "string", "COMMIT, ROLLBACK, DISCARD, UNDELIVERABLE", _of_body("outcome")),
        Field(
            "source",
            "string",
            "Who ended it: END, CHECK, OPERATOR, LIMIT, DELIVERY",
            _of_body("source"),
        ),
        Field(
            "delivery",
            "string",
            "FAST if the producer delivered the message itself, else null",
            _of_body("delivery"),
        ),
        Field(
            "op_offset", "bigint", "Offset of the op that ended it, if any", _of_body("op_offset")
        ),
        Field("checks", "int", "Checks sent for it", _of_body("checks")),
        Field("answered", "int", "Checks answered", _of_body("answered")),
        Field("born_at", "timestamp", "When the producer made the half (UTC)", _time("born_at")),
        Field("stored_at", "timestamp", "When Kafka stored the half (UTC)", _time("stored_at")),
        Field("ended_at", "timestamp", "When Kafka stored its op (UTC)", _time("ended_at")),
        Field(
            "decided_at",
            "timestamp",
            "Clock of the batch, read when the batch was planned (UTC); source_timestamp is when "
            "the outcome was written",
            _time("decided_at"),
        ),
        Field("batch_id", "bigint", "Batch that resolved it", _of_body("batch_id")),
        Field("query_id", "string", "Query that resolved it", _of_body("query_id")),
    ),
)
