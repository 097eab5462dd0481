"""Parked messages: their transactions are decided, and have no outcome until they are released."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .snapshot import Runs, Snapshot, punctual


def waiting(snapshot: Snapshot, runs: Runs, with_topics: bool) -> DataFrame:
    """Return queue and offset of the halves that are parked: their outcomes are not missing.

    A release counts once the records written with it have landed, or were read beside the tables.
    """
    entries = snapshot["parked"].where(F.col("queue").isNotNull() & F.col("offset").isNotNull())
    released = [
        (F.col("topic") == topic if topic is not None else F.lit(True))
        & (F.col("source_offset") < upto)
        for topic, upto in _releases(snapshot, runs, with_topics)
    ]
    is_released = reduce(or_, released, F.lit(False))
    return entries.where(~F.coalesce(is_released, F.lit(False))).select("queue", "offset")


def parked_events(waiting: DataFrame) -> DataFrame:
    """Return the parked halves as events: their outcome is known and has not landed."""
    return waiting.select("queue", "offset", F.lit(True).alias("told"))


def _releases(snapshot: Snapshot, runs: Runs, with_topics: bool) -> list[tuple[str | None, int]]:
    """Return by topic the offset up to which the lane is empty; topic None is all topics."""
    rows = (
        snapshot["parked"]
        .where(F.col("released_upto").isNotNull() & (F.lit(with_topics) | _landed(snapshot, runs)))
        .groupBy("released_topic")
        .agg(F.max("released_upto").alias("upto"))
        .collect()  # bounded by the number of topics
    )
    return [(row.released_topic, row.upto) for row in rows]


def _landed(snapshot: Snapshot, runs: Runs) -> Column:
    """Whether the outcomes that were written at the same time have landed."""
    complete = (
        punctual(snapshot).where(runs.is_passed()).agg(F.max("source_timestamp")).collect()[0][0]
    )
    return F.coalesce(F.col("source_timestamp") < F.lit(complete), F.lit(False))
