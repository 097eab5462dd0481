"""Topics as their consumers find them: what is committed, and what is held up."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.support.patience import PATIENCE_SECONDS, wait_until

#: Options of a Kafka client, `bootstrap.servers` among them.
Options = Mapping[str, Any]
#: Answers of a broker that has just started, and does not lead its partitions yet.
_NOT_YET = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}


def committed_records(
    options: Options, topic: str, partitions: Iterable[int] | None = None
) -> list[Message]:
    """Read all that is committed, each partition in order, once no transaction is open.

    Kafka answers a commit before it writes its markers. Until they are there, nobody sees the
    records of the commit.
    """
    wait_until(lambda: held_up(options, topic, partitions) == 0)
    return visible_records(options, topic, partitions)


def visible_records(
    options: Options, topic: str, partitions: Iterable[int] | None = None
) -> list[Message]:
    """Read what is visible now, each partition in order.

    Records that come meanwhile may be among them. A secured broker's user needs Read on any group.
    """
    with _consumer(options, "read_committed") as consumer:
        return [
            message
            for partition in _topic_partitions(consumer, topic, partitions)
            for message in _to_end(consumer, partition)
        ]


def held_up(options: Options, topic: str, partitions: Iterable[int] | None = None) -> int:
    """Return how many offsets are not visible yet, from the first open transaction on."""
    visible = end_offsets(options, topic, partitions)
    stored = end_offsets(options, topic, partitions, isolation="read_uncommitted")
    return sum(stored.values()) - sum(visible.values())


def end_offsets(
    options: Options,
    topic: str,
    partitions: Iterable[int] | None = None,
    isolation: str = "read_committed",
) -> dict[int, int]:
    """Return the end offset of each partition, as consumers of this isolation find it."""
    with _consumer(options, isolation) as consumer:
        return {
            partition.partition: _end_of(consumer, partition)
            for partition in _topic_partitions(consumer, topic, partitions)
        }


def _consumer(options: Options, isolation: str) -> closing[Consumer]:
    own = {
        "group.id": uuid.uuid4().hex,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "fetch.wait.max.ms": 10,  # the default would hold up the end of a partition 500 ms
    }
    return closing(Consumer({**options, **own}))


def _topic_partitions(
    consumer: Consumer, topic: str, partitions: Iterable[int] | None
) -> list[TopicPartition]:
    if partitions is None:
        known = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic]
        assert known.error is None, f"{topic}: {known.error}"
        partitions = sorted(known.partitions)
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    return wait_until(partial(_end_if_led, consumer, partition))[1]


def _end_if_led(consumer: Consumer, partition: TopicPartition) -> tuple[int, int] | None:
    """Return the first offset and the end; None from a broker that has just started."""
    try:
        return consumer.get_watermark_offsets(partition, PATIENCE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in _NOT_YET:
            return None
        raise


def _to_end(consumer: Consumer, partition: TopicPartition) -> Iterator[Message]:
    # While somebody writes, librdkafka may never tell of an end.
    end = _end_of(consumer, partition)
    consumer.assign([partition])
    while True:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None, f"nothing of {partition.topic} within {PATIENCE_SECONDS} s"
        if (error := message.error()) is None:
            yield message
            if (message.offset() or 0) >= end - 1:
                return
        else:
            assert error.code() == KafkaError._PARTITION_EOF, str(error)
            return
