"""The digests by which the audit compares a discarded message with its half."""

from __future__ import annotations

import pytest
from chispa import DataFramesNotEqualError, assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from resolver.audit.copies import copied_halves, discard_events
from resolver.audit.snapshot import Snapshot
from resolver.ledger import HEADERS

from .records import BORN_AT, at, half

COLUMNS = (
    "queue int, offset bigint, transaction_id string, reason string, key binary, value binary, "
    f"headers {HEADERS}, source_timestamp timestamp"
)
OURS = [("HALF_OFFSET", b"1:7"), ("TRANSACTION_CHECK_TIMES", b"15"), ("REASON", b"CHECK_MAX")]


def digests(spark: SparkSession, discarded_body: bytes) -> tuple[DataFrame, DataFrame]:
    """Return the digest of a discarded message, and that of its half."""
    place = (1, 7, "id-1", "CHECK_MAX", b"key")
    own = at(half(headers=[("a", None), ("a", b"\xff\x00")])).all_headers
    then = F.timestamp_millis(F.lit(BORN_AT))

    def table(*rows: tuple[object, ...]) -> DataFrame:
        return spark.createDataFrame([(*row, None) for row in rows], COLUMNS).withColumn(
            "source_timestamp", then
        )

    discarded = table((*place, discarded_body, [*own, *OURS]))
    nothing = spark.createDataFrame([], "queue int, refused_offset bigint, refused_topic string")
    tables = {
        "half": table((*place, b"body", own)),
        "discarded": discarded,
        "check": table(),
        "quarantine": nothing,
    }
    copy = discard_events(discarded).select("queue", "offset", "discarded.content")
    sent = copied_halves(Snapshot(tables, {}, 0), "tx.").select("queue", "offset", "sent.discarded")
    return copy, sent.withColumnRenamed("discarded", "content")


def test_what_the_resolver_adds_changes_no_digest(spark: SparkSession) -> None:
    assert_df_equality(*digests(spark, b"body"), ignore_nullable=True)


def test_another_body_has_another_digest(spark: SparkSession) -> None:
    with pytest.raises(DataFramesNotEqualError):
        assert_df_equality(*digests(spark, b"bodY"), ignore_nullable=True)
