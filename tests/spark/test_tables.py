"""Records as rows of a table, without a broker."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from records import refused

from resolver.protocol import Names, QuarantineReason, Record
from resolver.tables import HEADERS, OP, QUARANTINE

RECORD = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    f"headers {HEADERS}"
)


def test_of_a_field_of_an_op_that_is_given_twice_the_last_counts(spark: SparkSession) -> None:
    """As the resolver reads it: its columns would be empty else."""
    value = b'{"state":"UNKNOWN","state":"COMMIT_MESSAGE","group":"orders","offsets":[7]}'
    record = ("tx.op", 1, 3, None, None, bytearray(value), [("TAGS", bytearray(b"d"))])
    (row,) = OP.rows(spark.createDataFrame([record], RECORD)).collect()
    assert (row.state, row.group, row.offsets) == ("COMMIT_MESSAGE", "orders", [7])


@pytest.mark.parametrize(("topic", "group"), [("tx.half", None), ("tx.op", "shop")])
def test_the_group_of_what_was_refused_is_out_of_the_body_of_an_op_alone(
    spark: SparkSession, topic: str, group: str | None
) -> None:
    """What a half's body says is the user's."""
    body = Record(topic, None, b'{"group":"shop"}', [])
    made = refused(QuarantineReason.MALFORMED_HALF, body, f"{topic}:1:5")
    row = made.to_record(Names("tx."), 4096)
    headers = [(name, bytearray(value or b"")) for name, value in row.headers]
    record = (row.topic, 1, 3, None, None, bytearray(row.value or b""), headers)
    (found,) = QUARANTINE.rows(spark.createDataFrame([record], RECORD)).collect()
    assert (found.refused_topic, found.group) == (topic, group)
