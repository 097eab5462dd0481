"""Records as rows of a table, without a broker."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from pathlib import Path

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from resolver.ledger import HALF, HEADERS, OP, QUARANTINE, RESOLUTION, Table
from resolver.ledger.delta import (
    add_columns,
    append,
    create_tables,
    latest_rows,
    table_path,
    writers,
)
from resolver.ledger.op import elements
from resolver.protocol import FAST_DELIVERY, Names, QuarantineReason, Record, revoked_record

from .records import half, refused, resolution

RECORD = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    f"headers {HEADERS}"
)


def test_of_a_field_of_an_op_that_is_given_twice_the_last_counts(spark: SparkSession) -> None:
    """As the resolver reads it: its columns would be empty else."""
    value = b'{"state":"UNKNOWN","state":"COMMIT_MESSAGE","group":"orders","offsets":[7]}'
    record = ("tx.op", 1, 3, None, None, bytearray(value), [("TAGS", bytearray(b"d"))])
    row = OP.rows(spark.createDataFrame([record], RECORD)).select("state", "group", "offsets")
    columns = "state string, group string, offsets array<bigint>"
    wanted = spark.createDataFrame([("COMMIT_MESSAGE", "orders", [7])], columns)
    assert_df_equality(row, wanted, ignore_nullable=True, ignore_metadata=True)


def test_an_op_has_a_row_for_each_element_and_one_that_is_refused_keeps_its_place(
    spark: SparkSession,
) -> None:
    op = spark.createDataFrame(
        [(1, [17, None, 18], ["id-1", "id-2", "id-3"])],
        "queue int, offsets array<bigint>, transaction_ids array<string>",
    )
    wanted = spark.createDataFrame(
        [(1, 0, 17, "id-1"), (1, 1, None, "id-2"), (1, 2, 18, "id-3")],
        "queue int, position int, offset bigint, transaction_id string",
    )
    assert_df_equality(elements(op), wanted, ignore_nullable=True, ignore_row_order=True)


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
    rows = QUARANTINE.rows(spark.createDataFrame([record], RECORD))
    wanted = spark.createDataFrame([(topic, group)], "refused_topic string, group string")
    assert_df_equality(
        rows.select("refused_topic", "group"), wanted, ignore_nullable=True, ignore_metadata=True
    )


def op_row(value: bytes, tag: bytes = b"d") -> tuple[object, ...]:
    return ("tx.op", 1, 3, None, None, bytearray(value), [("TAGS", bytearray(tag))])


def test_an_op_says_whether_its_producer_delivers_and_a_revocation_names_its_id(
    spark: SparkSession,
) -> None:
    revoked = revoked_record("tx.op", 1, "tx.fast:orders:a", "secret")
    records = [
        op_row(b'{"delivered":true}'),
        op_row(b'{"fast":false}'),
        op_row(b'{"delivered":"true","fast":"tx.fast:orders:a"}'),
        op_row(revoked.value or b"", b"revoked"),
        op_row(b"no JSON", b"revoked"),
    ]
    rows = OP.rows(spark.createDataFrame(records, RECORD))
    wanted = spark.createDataFrame(
        [
            ("d", True, None, None),
            ("d", None, False, None),
            ("d", None, None, None),
            ("revoked", None, None, "tx.fast:orders:a"),
            ("revoked", None, None, None),
        ],
        "tag string, delivered boolean, fast boolean, fast_id string",
    )
    assert_df_equality(
        rows.select(*wanted.columns), wanted, ignore_nullable=True, ignore_metadata=True
    )


def test_a_half_has_its_fast_id_and_an_outcome_its_delivery(spark: SparkSession) -> None:
    stored = half()._replace(fast_id="tx.fast:orders:a").to_record("tx.half")
    said = resolution()._replace(delivery=FAST_DELIVERY).to_record("tx.resolution")
    for table, column, value, record in (
        (HALF, "fast_id", "tx.fast:orders:a", stored),
        (RESOLUTION, "delivery", "FAST", said),
        (RESOLUTION, "delivery", None, resolution().to_record("tx.resolution")),
    ):
        headers = [(name, bytearray(header or b"")) for name, header in record.headers]
        landed = (record.topic, 1, 3, None, None, bytearray(record.value or b""), headers)
        row = table.rows(spark.createDataFrame([landed], RECORD)).select(column)
        wanted = spark.createDataFrame([(value,)], f"{column} string")
        assert_df_equality(row, wanted, ignore_nullable=True, ignore_metadata=True)


def test_tables_of_an_older_version_get_the_new_columns_with_their_comments(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As land does at its start; rows that landed before have null there."""
    older = dataclasses.replace(
        RESOLUTION,
        own_fields=tuple(one for one in RESOLUTION.own_fields if one.name != "delivery"),
    )
    fast = resolution()._replace(delivery=FAST_DELIVERY).to_record("tx.resolution")
    landed = ("tx.resolution", 0, 3, datetime.now(timezone.utc), None, bytearray(fast.value or b""))
    records = spark.createDataFrame([(*landed, None)], RECORD)
    path = table_path(tmp_path, RESOLUTION)
    create_tables(spark, tmp_path, [older, HALF])
    append(older.rows(records), path, "land", 0)
    add_columns(spark, tmp_path, [RESOLUTION, HALF])
    add_columns(spark, tmp_path, [RESOLUTION, HALF])
    append(RESOLUTION.rows(records), path, "land", 1)
    table = DeltaTable(path)
    assert [table.version(), DeltaTable(table_path(tmp_path, HALF)).version()] == [3, 0]
    comments = {field.name: field.metadata for field in table.schema().fields}
    assert comments["delivery"]["comment"] == comments_of(RESOLUTION)["delivery"]
    assert sorted(row["delivery"] or "" for row in table.to_pyarrow_table().to_pylist()) == [
        "",
        "FAST",
    ]
    _, rows = latest_rows(spark, path)
    assert rows is not None
    wanted = spark.createDataFrame([(None,), ("FAST",)], "delivery string")
    assert_df_equality(rows.select("delivery"), wanted, ignore_row_order=True, ignore_metadata=True)
    assert writers(spark, path)["land"][0] == 1


def comments_of(table: Table) -> dict[str, str]:
    return {field.name: field.comment for field in table.fields}
