"""A rebuild: a new checkpoint that takes every transaction with an outcome as settled."""

from __future__ import annotations

import re
import time

import orjson
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import ResolverError
from ..kafka.clients import admin_client, reader_config, spark_batch_options
from ..kafka.oldest import Oldest, oldest_records
from ..kafka.partition_offsets import QueueOffsets
from ..kafka.topic_admin import existing_topics
from ..kafka.topics import ensure_topics
from ..protocol import Names
from ..protocol import names as n
from ..settings import Settings
from .delivery.marker_group import MarkerGroup
from .proven_ends import proven_ends

#: `delivery` is that of `Resolution`.
OUTCOMES = "queue int, offset long, outcome string, delivery string"

_TIMEOUT_SECONDS = 30.0
_ID = f"string(try_element_at(filter(headers, h -> h.key = '{n.UNIQ_KEY}'), 1).value) AS half_id"


def refuse_gaps(settings: Settings) -> None:
    """Raise `ResolverError` if outcomes of halves that still exist may have been deleted."""
    names = Names(settings.topic_prefix)
    pattern = "|".join(re.escape(topic) for topic in (names.half, names.resolution))
    oldest = oldest_records(settings, pattern)
    consumer = Consumer(reader_config(settings))
    try:
        _refuse_gaps(consumer, names, oldest)
    finally:
        consumer.close()


def ensure_all_topics(settings: Settings) -> None:
    """Make the resolver's topics, or verify them, after a check that the outcomes still exist.

    Raises `ResolverError` if the resolution topic is gone although a resolver has run: a rebuild
    would take every ended transaction as pending.
    """
    admin = admin_client(settings)
    names = Names(settings.topic_prefix)
    existing = existing_topics(admin)
    if names.half in existing and names.resolution not in existing and _has_run(settings):
        raise ResolverError(
            f"{names.resolution} is gone, and with it what became of the halves in {names.half}",
            remedy="make it with `txresolver topics create`; should you --rebuild later, first "
            "remove all halves that are there now, with kafka-delete-records.sh: they may have "
            "ended, and would be delivered again",
        )
    ensure_topics(admin, settings)


def _has_run(settings: Settings) -> bool:
    group = MarkerGroup(settings)
    try:
        return group.read() is not None
    finally:
        group.close()


def rebuild_ends(settings: Settings) -> QueueOffsets:
    """Return the end offsets of the halves and outcomes that a rebuild compares.

    Call it after the takeover: from then on no other resolver adds outcomes.
    """
    names = Names(settings.topic_prefix)
    consumer = Consumer(reader_config(settings))
    try:
        topics = (names.half, names.resolution)
        return proven_ends(settings, {topic: _partitions(consumer, topic) for topic in topics})
    finally:
        consumer.close()


def outcomes(spark: SparkSession, settings: Settings, end_offsets: QueueOffsets) -> DataFrame:
    """Return `OUTCOMES` before these end offsets, of halves that the half topic has, or has had.

    A half topic that was made again, or that lost its last records, has or will have other halves
    at the same offsets. The outcome of a lost half says nothing of another half at its offset.
    """
    names = Names(settings.topic_prefix)
    resolution = F.from_json(F.col("value").cast("string"), f"{OUTCOMES}, transaction_id string")
    known = _records(spark, settings, names.resolution, end_offsets).select(
        resolution.alias("said")
    )
    halves = _records(spark, settings, names.half, end_offsets).selectExpr(
        "partition AS queue", "offset", _ID
    )
    end_of = F.create_map(
        *(
            F.lit(number)
            for queue, end in end_offsets[names.half].items()
            for number in (int(queue), end)
        )
    )
    return (
        known.select("said.*")
        .join(halves, ["queue", "offset"], "left")
        # A half without a record is below the first offset left: deleted when its time was over.
        .where(F.col("half_id").isNull() | (F.col("half_id") == F.col("transaction_id")))
        .where(F.col("offset") < end_of[F.col("queue")])
        .select("queue", "offset", "outcome", "delivery")
    )


def _records(
    spark: SparkSession, settings: Settings, topic: str, end_offsets: QueueOffsets
) -> DataFrame:
    options = {
        **spark_batch_options(settings),
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": orjson.dumps({topic: end_offsets[topic]}).decode(),
    }
    return spark.read.format("kafka").options(**options).load()


def _refuse_gaps(consumer: Consumer, names: Names, oldest: Oldest) -> None:
    """Refuse halves older than the outcomes that are left: their outcomes may have been deleted.

    Each partition may have lost other outcomes, so the partition that lost the newest decides.
    """
    lost_until = max(
        _lost_until(consumer, topic, partition, stored_at)
        for (topic, partition), stored_at in oldest.items()
        if topic == names.resolution
    )
    for (topic, partition), stored_at in sorted(oldest.items()):
        if topic == names.half and stored_at is not None and stored_at < lost_until:
            raise ResolverError(
                f"{names.half} has halves of queue {partition} from {stored_at} ms on, and "
                f"outcomes in {names.resolution} may be gone up to {lost_until} ms: halves before "
                "that may have ended already, and would be delivered again",
                remedy="remove them with kafka-delete-records.sh, then start with --rebuild",
            )


def _lost_until(consumer: Consumer, topic: str, partition: int, oldest: int | None) -> int:
    """Return the time in ms up to which records may have been deleted; 0 if none was."""
    if _watermarks(consumer, topic, partition)[0] == 0:
        return 0
    return time.time_ns() // 1_000_000 if oldest is None else oldest


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT_SECONDS)
    return int(low), int(high)


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    return sorted(consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions)
