"""What fast producers leave in Kafka: read as consumers do, and freed as the resolver does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from resolver import Message, TransactionProducer
from resolver.producer.producer_base import ProducerBase
from resolver.protocol import Half, Op, StoredHalf, decode_half
from tests.support.patience import PATIENCE_SECONDS, SEND_TIMEOUT_MS, wait_until
from tests.support.reading import committed_records, held_up, visible_records
from tests.support.world import headers_of, warm_transactions

from .protocol_topics import ProtocolTopics


class FastTopics(ProtocolTopics):
    """The topics under one prefix, with Kafka transactions in them."""

    def __init__(self, bootstrap: str, prefix: str, queues: int = 2) -> None:
        super().__init__(bootstrap, prefix, queues)
        self.real = f"real-{uuid.uuid4().hex[:8]}"

    def make(self, *groups: str) -> None:
        super().make(*groups)
        self.make_real(self.real, 3)
        warm_transactions(self.options)

    @contextmanager
    def producer(self, **options: Any) -> Iterator[TransactionProducer]:
        """Make a fast producer of group orders, which can commit fast."""
        given: dict[str, Any] = {
            "checks_elsewhere": True,
            "fast": True,
            "send_timeout_ms": SEND_TIMEOUT_MS,
            **options,
        }
        server = given.pop("server", self.bootstrap)
        with TransactionProducer(
            "orders", server, topic_prefix=self.names.prefix, **given
        ) as producer:
            self.await_fast(producer)
            yield producer

    def await_fast(self, producer: ProducerBase) -> None:
        """Wait until the producer's halves name a fast id."""
        half = Half("t", "orders", "any", 0, None, None, [])
        wait_until(lambda: producer._opening.is_open)
        lane = producer._factory._fast_lane
        assert lane is not None
        wait_until(lambda: lane.name(half).fast_id)

    def message(self, body: bytes = b"body", **fields: Any) -> Message:
        return Message(self.real, body, **fields)

    def read(self, topic: str) -> list[KafkaMessage]:
        """Read what is visible under read_committed, when no transaction is open any more."""
        return committed_records(self.options, topic)

    def visible(self, topic: str) -> list[KafkaMessage]:
        """Read what is visible under read_committed now."""
        return visible_records(self.options, topic)

    def held_up(self, topic: str) -> int:
        """Return how many records of a topic are behind the first open transaction."""
        return held_up(self.options, topic)

    def halves(self) -> list[StoredHalf]:
        """Read all halves, as the resolver does."""
        found = []
        for message in self.read(self.names.half):
            headers = headers_of(message) or []
            half = decode_half(message.key(), message.value(), headers, self.names.prefix)
            queue, offset, stored_at_ms = _place(message)
            found.append(StoredHalf(queue, offset, stored_at_ms, half, headers))
        return found

    def delivered(self) -> list[tuple[int, Op]]:
        """Read the ops that say so, each with its queue."""
        return [(queue, op) for queue, op in self.ops() if op.delivered]

    def seen(self) -> list[bytes | None]:
        """Return the bodies that consumers of the real topic see."""
        return [message.value() for message in self.read(self.real)]

    def revoke(self, fast_id: str) -> None:
        """Initialise a fast id, as the resolver does: its producer is fenced."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": fast_id})
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return producer.init_transactions(1.0)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise


def _place(message: KafkaMessage) -> tuple[int, int, int]:
    queue, offset = message.partition(), message.offset()
    assert queue is not None and offset is not None
    return queue, offset, message.timestamp()[1]
