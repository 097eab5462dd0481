"""A rebuild: a new checkpoint that takes every transaction with an outcome as settled."""

from __future__ import annotations

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .errors import ResolverError
from .kafka import client_config, spark_kafka_options
from .protocol import Names
from .settings import Settings

_TIMEOUT_SECONDS = 30.0


def outcome_ends(settings: Settings) -> dict[str, int]:
    """Return the end offset of each partition of the resolution topic, by partition.

    Raises `ResolverError` where outcomes of halves that are still there were deleted.
    """
    names = Names(settings.topic_prefix)
    consumer = _consumer(settings)
    try:
        _refuse_gaps(consumer, names)
        return {
            str(partition): consumer.get_watermark_offsets(
                TopicPartition(names.resolution, partition), _TIMEOUT_SECONDS
            )[1]
            for partition in _partitions(consumer, names.resolution)
        }
    finally:
        consumer.close()


def outcomes(spark: SparkSession, settings: Settings, ends: dict[str, int]) -> DataFrame:
    """Return the outcomes before these end offsets: queue, offset, outcome."""
    topic = Names(settings.topic_prefix).resolution
    options = {
        **spark_kafka_options(settings),
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": orjson.dumps({topic: ends}).decode(),
    }
    said = F.from_json(F.col("value").cast("string"), "queue int, offset long, outcome string")
    records = spark.read.format("kafka").options(**options).load()
    return records.select(said.alias("said")).select("said.*")


def _refuse_gaps(consumer: Consumer, names: Names) -> None:
    """Refuse halves older than the oldest outcome: theirs may have been deleted."""
    oldest_outcome = max(
        (_first_stored_at(consumer, *first) for first in _deleted_before(consumer, names)),
        default=0,
    )
    if not oldest_outcome:
        return
    for partition in _partitions(consumer, names.half):
        first = _first_stored_at(consumer, names.half, partition)
        if first and first < oldest_outcome:
            raise ResolverError(
                f"{names.half} has halves of queue {partition} from {first} ms on, and outcomes "
                f"in {names.resolution} begin at {oldest_outcome} ms: halves before that may have "
                "ended already, and would be delivered again. Remove them with "
                "kafka-delete-records.sh, then start with --rebuild"
            )


def _deleted_before(consumer: Consumer, names: Names) -> list[tuple[str, int]]:
    """Return the partitions of outcomes of which the beginning is gone."""
    return [
        (names.resolution, partition)
        for partition in _partitions(consumer, names.resolution)
        if consumer.get_watermark_offsets(
            TopicPartition(names.resolution, partition), _TIMEOUT_SECONDS
        )[0]
        > 0
    ]


def _first_stored_at(consumer: Consumer, topic: str, partition: int) -> int:
    """Return when the first record of a partition was stored (ms), 0 if there is none."""
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    message = consumer.poll(_TIMEOUT_SECONDS)
    return 0 if message is None or message.error() else int(message.timestamp()[1])


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    return sorted(consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions)


def _consumer(settings: Settings) -> Consumer:
    ours = {
        "group.id": f"{settings.topic_prefix}rebuild",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    return Consumer(client_config(settings, **ours))
