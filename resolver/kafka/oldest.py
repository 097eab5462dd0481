"""The oldest records that Kafka has: they show deletions, and topics that were made again."""

from __future__ import annotations

import re
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ..errors import ResolverError
from ..settings import Settings
from .clients import reader_config

_TIMEOUT_SECONDS = 30.0

#: Time in ms at which a partition's oldest record was stored; None for an empty partition.
Oldest = dict[tuple[str, int], "int | None"]


def oldest_records(settings: Settings, pattern: str) -> Oldest:
    """Return the times for all partitions of the topics whose names match; bounded in time."""
    consumer = _consumer(settings)
    try:
        partitions = _partitions(consumer, re.compile(pattern))
        return _oldest(consumer, partitions)
    except KafkaException as error:
        raise ResolverError(
            f"Kafka's oldest records can't be read: {error}",
            remedy="see the log of the broker, and start again",
        ) from error
    finally:
        consumer.close()


def _partitions(consumer: Consumer, pattern: re.Pattern[str]) -> list[tuple[str, int]]:
    known = consumer.list_topics(timeout=_TIMEOUT_SECONDS).topics
    matching = [topic for name, topic in known.items() if pattern.fullmatch(name)]
    return [(topic.topic, partition) for topic in matching for partition in topic.partitions]


def _oldest(consumer: Consumer, partitions: list[tuple[str, int]]) -> Oldest:
    oldest: Oldest = {}
    consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in partitions])
    until = time.monotonic() + _TIMEOUT_SECONDS
    while missing := [partition for partition in partitions if partition not in oldest]:
        message = consumer.poll(max(0.0, until - time.monotonic()))
        if message is None:
            topic, number = missing[0]
            raise ResolverError(
                f"no answer from partition {number} of {topic} within {_TIMEOUT_SECONDS:.0f} s",
                remedy="look whether its broker is up, and start again",
            )
        partition = (str(message.topic()), int(message.partition() or 0))
        if partition not in oldest:
            oldest[partition] = _stored_at(message)
            consumer.pause([TopicPartition(*partition)])  # lets the other partitions answer
    return oldest


def _stored_at(message: Message) -> int | None:
    error = message.error()
    if error is None:
        return int(message.timestamp()[1])
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    if message.topic() is None:
        raise ResolverError(
            f"Kafka's oldest records can't be read: {error.str()}",
            remedy="grant the rights of docs/protocol.md, section 9",
        )
    raise ResolverError(
        f"partition {message.partition()} of {message.topic()} can't be read: {error.str()}",
        remedy="see the log of the broker, and start again",
    )


def _consumer(settings: Settings) -> Consumer:
    ours = {
        "enable.partition.eof": True,
        "queued.min.messages": 1,  # one record of each partition is enough
    }
    return Consumer(reader_config(settings, **ours))
