"""A rebuild: a new checkpoint that takes every transaction with an outcome as settled."""

from __future__ import annotations

import time

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .errors import ResolverError
from .kafka import client_config, spark_kafka_options
from .protocol import Names
from .settings import Settings

_TIMEOUT_SECONDS = 30.0


def refuse_gaps(settings: Settings) -> None:
    """Raise `ResolverError` where outcomes of halves that are still there may have been deleted."""
    consumer = _consumer(settings)
    try:
        _refuse_gaps(consumer, Names(settings.topic_prefix))
    finally:
        consumer.close()


def outcome_ends(settings: Settings) -> dict[str, int]:
    """Return the end offset of each partition of the resolution topic, by partition."""
    names = Names(settings.topic_prefix)
    consumer = _consumer(settings)
    try:
        return {
            str(partition): _watermarks(consumer, names.resolution, partition)[1]
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
    """Refuse halves older than what is left of the outcomes: theirs may have been deleted.

    Each partition may have lost others, so the one that lost the newest decides.
    """
    lost_until = max(
        (_lost_until(consumer, names.resolution, partition))
        for partition in _partitions(consumer, names.resolution)
    )
    for partition in _partitions(consumer, names.half):
        first = _first_stored_at(consumer, names.half, partition)
        if first is not None and first < lost_until:
            raise ResolverError(
                f"{names.half} has halves of queue {partition} from {first} ms on, and outcomes "
                f"in {names.resolution} may be gone up to {lost_until} ms: halves before that may "
                "have ended already, and would be delivered again. Remove them with "
                "kafka-delete-records.sh, then start with --rebuild"
            )


def _lost_until(consumer: Consumer, topic: str, partition: int) -> int:
    """Return up to when records may have been deleted (ms), 0 where none was."""
    if _watermarks(consumer, topic, partition)[0] == 0:
        return 0
    first = _first_stored_at(consumer, topic, partition)
    return time.time_ns() // 1_000_000 if first is None else first


def _first_stored_at(consumer: Consumer, topic: str, partition: int) -> int | None:
    """Return when the first record of a partition was stored (ms), None if there is none."""
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    message = consumer.poll(_TIMEOUT_SECONDS)
    if message is None:
        raise ResolverError(f"no answer from partition {partition} of {topic} in time; try again")
    error = message.error()
    if error is None:
        return int(message.timestamp()[1])
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    raise ResolverError(f"partition {partition} of {topic} can't be read: {error.str()}")


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT_SECONDS)
    return int(low), int(high)


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
