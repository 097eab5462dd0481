"""The protocol's topics in a test: made, written to as the resolver would, and read back."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Half, Names, Op, Record, StoredHalf, check_record, decode_op
from resolver.resolve.delivery import Delivery
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import held_up, visible_records
from tests.support.world import headers_of, position_of

#: Real topic of most messages; tests share it, and nobody reads it.
REAL = "orders.placed"


class ProtocolTopics:
    """The topics under one prefix."""

    def __init__(self, bootstrap: str, prefix: str, queues: int = 2) -> None:
        self.bootstrap = bootstrap
        self.options = {"bootstrap.servers": bootstrap}
        self.names = Names(prefix)
        self.settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, queues=queues)

    def make(self, *groups: str) -> None:
        """Make the protocol's topics, and the real topic of most messages."""
        admin = admin_client(self.settings)
        ensure_topics(admin, self.settings, groups)
        if REAL not in admin.list_topics(timeout=30).topics:
            self.make_real(REAL)

    def make_real(self, name: str, partitions: int = 2, **config: str) -> None:
        """Make a topic; return when the broker knows it."""
        admin = admin_client(self.settings)
        made = admin.create_topics([NewTopic(name, partitions, 1, config=config)])
        made[name].result(PATIENCE_SECONDS)
        wait_until(lambda: name in admin.list_topics(timeout=30).topics)

    def publish(self, **settings: Any) -> None:
        """Let a resolver with these settings take over: it publishes its policy."""
        with closing(Delivery(replace(self.settings, **settings), uuid.uuid4().hex)) as delivery:
            delivery.start(is_new=True, rebuild=True)
        # Kafka answers a commit before the policy is visible.
        wait_until(lambda: held_up(self.options, self.names.policy) == 0)

    def check(self, group: str, offset: int, times: int = 1, queue: int = 0) -> None:
        """Write a check of a made-up half, as the resolver would."""
        self.write(self.record_of_check(group, offset, times, queue))

    def record_of_check(
        self, group: str, offset: int, times: int = 1, queue: int = 0, partition: int = -1
    ) -> Record:
        half = Half(f"id-{queue}-{offset}", group, "orders.placed", 7, b"k", b"body", [("a", b"1")])
        at = StoredHalf(queue, offset, 7, half, half.to_record(self.names.half).headers)
        return check_record(at, times, self.names)._replace(partition=partition)

    def write(self, *records: Record) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for record in records:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                headers=list(record.headers),
                on_delivery=_stored,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0

    def read(self, topic: str) -> list[KafkaMessage]:
        """Read all that is in a topic, under read_committed."""
        return visible_records(self.options, topic)

    def ops(self) -> list[tuple[int, Op]]:
        """Read all ops, each with its queue; agents' announcements aside."""
        return [(queue, op) for queue, op in self._ops() if not op.announces]

    def announced(self) -> list[int]:
        """Return the queues of agents' announcements, in order."""
        return sorted(queue for queue, op in self._ops() if op.announces)

    def _ops(self) -> list[tuple[int, Op]]:
        return [
            (position_of(message)[0], decode_op(message.value(), headers_of(message)))
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


def group_of(topics: ProtocolTopics) -> str:
    """Consumer groups know no prefix: each test has its own."""
    return f"orders-{topics.names.prefix}x"


def _stored(error: object, _message: object) -> None:
    assert error is None, error
