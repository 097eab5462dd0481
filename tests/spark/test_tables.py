"""Records as rows of a table, without a broker."""

from __future__ import annotations

from pyspark.sql import SparkSession

from resolver.tables import HEADERS, OP

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
