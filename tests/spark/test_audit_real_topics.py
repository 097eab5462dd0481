"""Which topics the audit compares with."""

from __future__ import annotations

from pyspark.sql import SparkSession

from resolver.audit.delivered import real_topics
from resolver.audit.snapshot import Snapshot


def test_a_topic_of_the_resolvers_own_is_no_real_one(spark: SparkSession) -> None:
    """A malformed half may name it: there its refusal is, with the headers that it came with."""
    halves = spark.createDataFrame([("real",), ("tx.quarantine",), (None,)], "topic string")
    assert real_topics(Snapshot({"half": halves}, {}, 0), "tx.") == {"real"}
