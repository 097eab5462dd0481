"""The protocol's topics in a test: made, written to as the resolver would, and read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from resolver.kafka import admin_client
from resolver.protocol import (
    Half,
    HalfAt,
    Names,
    Op,
    Record,
    check_record,
    decode_op,
)
from resolver.settings import Settings
from resolver.topics import ensure_topics

T = TypeVar("T")


class ProtocolTopics:
    """The topics under one prefix."""

    def __init__(self, bootstrap: str, prefix: str, queues: int = 2) -> None:
        self.bootstrap = bootstrap
        self.names = Names(prefix)
        self.settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, queues=queues)

    def make(self, *groups: str) -> None:
        ensure_topics(admin_client(self.settings), self.settings, groups)

    def check(self, group: str, offset: int, times: int = 1, queue: int = 0) -> None:
        """Write a check of a made-up half, as the resolver would."""
        self.write(self.record_of_check(group, offset, times, queue))

    def record_of_check(
        self, group: str, offset: int, times: int = 1, queue: int = 0, partition: int = -1
    ) -> Record:
        half = Half(f"id-{queue}-{offset}", group, "orders.placed", 7, b"k", b"body", [("a", b"1")])
        at = HalfAt(queue, offset, 7, half, half.to_record(self.names.half).headers)
        return check_record(at, times, self.names)._replace(partition=partition)

    def write(self, *records: Record) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for record in records:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                headers=record.headers,
                on_delivery=_stored,
            )
        assert producer.flush(30) == 0

    def read(self, topic: str) -> list[KafkaMessage]:
        """Read all that is in a topic, under read_committed."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reads", "enable.auto.commit": False}
        )
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            return [message for number in partitions for message in _all(consumer, topic, number)]
        finally:
            consumer.close()

    def ops(self) -> list[tuple[int, Op]]:
        """Read all ops, each with its queue."""
        return [
            (message.partition(), decode_op(message.value(), message.headers() or []))
            for message in self.read(self.names.op)
        ]

    def ends(self, queue: int | None = None) -> list[tuple[int, str]]:
        """Read all ends: offset of the half, and state."""
        return [
            (element.offset, op.state.value)
            for number, op in self.ops()
            for element in op.elements
            if queue in (None, number)
        ]

    def committed(self, group: str) -> int:
        """Add up how far the group's agents have committed their checks."""
        topic = self.names.check(group)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            places = consumer.committed([TopicPartition(topic, n) for n in numbers], timeout=30)
            return sum(max(0, place.offset) for place in places)
        finally:
            consumer.close()


def until(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """Wait for a condition, return what it returned; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        seen = condition()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}, {seen!r}"
        time.sleep(0.05)


def _all(consumer: Consumer, topic: str, partition: int) -> Iterator[KafkaMessage]:
    """Read to the end of a partition that was written without Kafka transactions."""
    place = TopicPartition(topic, partition)
    first, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.assign([TopicPartition(topic, partition, first)])
    for _ in range(first, end):
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        yield message


def _stored(error: object, _message: object) -> None:
    assert error is None, error
