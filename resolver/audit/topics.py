"""The topics as a `read_committed` reader finds them now."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)
from pyspark.sql import DataFrame, SparkSession

from ..errors import AuditError
from ..kafka import admin_client, client_config, spark_kafka_options
from ..settings import Settings

_TIMEOUT_SECONDS = 30.0
#: How long a transaction that is open when the audit comes may stay open.
_OPEN_SECONDS = 120.0
_LOOK_SECONDS = 0.1

#: The first offset of each partition, and the one behind its last record, by topic and partition.
Ranges = dict[str, dict[int, tuple[int, int]]]


def readable(settings: Settings, topics: Iterable[str]) -> Ranges:
    """Return what of these topics can be read, without those that don't exist.

    Returns when all that has been written by now can be read: what was committed at the call is
    in the ranges, though the markers of its transaction are written one by one.
    """
    written, committed = _consumer(settings, "read_uncommitted"), _consumer(settings)
    try:
        ranges = _written(written, topics)
        for topic, partitions in ranges.items():
            for partition, (_, end) in partitions.items():
                _await_readable(committed, TopicPartition(topic, partition), end)
        return ranges
    except KafkaException as error:
        raise AuditError(f"Kafka can't be asked: {error.args[0].str()}") from error
    finally:
        written.close()
        committed.close()


def compacted(settings: Settings, topics: Iterable[str]) -> set[str]:
    """Return those topics of which Kafka keeps only the last record of each key."""
    names = list(topics)
    if not names:
        return set()
    admin: AdminClient = admin_client(settings)
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    try:
        answers = {
            one.name: answer.result(_TIMEOUT_SECONDS)
            for one, answer in admin.describe_configs(asked).items()
        }
    except KafkaException as error:
        raise AuditError(f"Kafka can't be asked: {error.args[0].str()}") from error
    return {name for name, config in answers.items() if "compact" in config["cleanup.policy"].value}


def records(spark: SparkSession, settings: Settings, ranges: Ranges) -> DataFrame:
    """Return the committed records in these ranges, as Spark's Kafka source gives them."""
    starts, ends = (
        {
            topic: {str(p): ends[side] for p, ends in partitions.items()}
            for topic, partitions in ranges.items()
        }
        for side in (0, 1)
    )
    options = {
        **spark_kafka_options(settings),
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(ranges[topic]) for topic in ranges}),
        "includeHeaders": "true",
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
    return spark.read.format("kafka").options(**options).load()


def _written(consumer: Consumer, topics: Iterable[str]) -> Ranges:
    known = consumer.list_topics(timeout=_TIMEOUT_SECONDS).topics
    return {
        topic: {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topic, partition), _TIMEOUT_SECONDS
            )
            for partition in known[topic].partitions
        }
        for topic in sorted(topics)
        if topic in known
    }


def _await_readable(consumer: Consumer, place: TopicPartition, end: int) -> None:
    until = time.monotonic() + _OPEN_SECONDS
    while consumer.get_watermark_offsets(place, _TIMEOUT_SECONDS)[1] < end:
        if time.monotonic() > until:
            raise AuditError(
                f"an open transaction has hidden records of partition {place.partition} of "
                f"{place.topic} for {_OPEN_SECONDS:.0f} s: audit again when its producer has "
                "ended it, or Kafka has after transaction.timeout.ms"
            )
        time.sleep(_LOOK_SECONDS)


def _consumer(settings: Settings, isolation: str = "read_committed") -> Consumer:
    ours = {
        "group.id": f"{settings.topic_prefix}reader",
        "enable.auto.commit": False,
        "isolation.level": isolation,
    }
    return Consumer(client_config(settings, **ours))
