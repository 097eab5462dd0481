"""What stands around a resolver in a test: applications, the topics they read, records by hand."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.producer.transaction import Transaction
from resolver.protocol import (
    Element,
    Half,
    Headers,
    Names,
    Op,
    Record,
    Resolution,
    TransactionStatus,
    decode_resolution,
)
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import held_up

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
UNKNOWN = TransactionStatus.UNKNOWN
#: What librdkafka says of a partition until all brokers know its leader.
_NO_LEADER_YET = {
    KafkaError._TIMED_OUT,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}


@dataclass(frozen=True)
class Sent:
    """A half as Kafka stored it."""

    half: Half
    queue: int
    offset: int
    stored_at_ms: int

    @classmethod
    def of(cls, half: Half, message: Message) -> Sent:
        """Return a half whose record this is."""
        return cls(half, *position_of(message), message.timestamp()[1])

    @property
    def half_id(self) -> str:
        return f"{self.queue}:{self.offset}"


@dataclass
class World:
    """One topic prefix on the broker, with a real topic for commits; `login` where it needs one."""

    bootstrap: str
    prefix: str
    group: str = "orders"
    partitions: int = 3
    login: dict[str, str] = field(default_factory=dict)
    _readers: dict[str, Reader] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.prefix)
        self.real = f"real-{uuid.uuid4().hex[:8]}"
        self.options = {"bootstrap.servers": self.bootstrap, **self.login}
        self.admin = AdminClient({**self.options})
        self.producer = Producer({**self.options, "linger.ms": 0})
        self.make_topic(self.real, self.partitions)

    def make_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        topic = NewTopic(name, partitions, 1, config=config)
        for made in self.admin.create_topics([topic]).values():
            made.result(PATIENCE_SECONDS)

    def await_gone(self, topic: str) -> None:
        """Return when a topic that was deleted is there no more."""
        wait_until(lambda: topic not in self.admin.list_topics(timeout=30).topics)

    def message(self, **changes: Any) -> Half:
        """Return a half of the real topic; `changes` are its fields."""
        fields: dict[str, Any] = {
            "transaction_id": str(uuid.uuid4()),
            "group": self.group,
            "topic": self.real,
            "born_at_ms": time.time_ns() // 1_000_000,
            "key": None,
            "body": b"body",
            "headers": [],
        }
        return Half(**(fields | changes))

    def send_halves(self, halves: Iterable[Half], queue: int = 0) -> list[Sent]:
        halves = list(halves)
        stored = self.produce(half.to_record(self.names.half, queue) for half in halves)
        return [Sent.of(half, message) for half, message in zip(halves, stored, strict=True)]

    def send_half(self, queue: int = 0, **changes: Any) -> Sent:
        return self.send_halves([self.message(**changes)], queue)[0]

    def end(
        self, *sent: Sent, state: TransactionStatus = COMMIT, from_check: bool = False
    ) -> Message:
        """Send one op for halves of one queue; return it as it was stored."""
        elements = [
            Element(position, stored_half.offset, stored_half.half.transaction_id)
            for position, stored_half in enumerate(sent)
        ]
        op = Op(state, sent[0].half.group, tuple(elements), from_check)
        return self.produce([op.to_record(self.names.op, sent[0].queue)])[0]

    def end_as(self, begun: Transaction, actor: str) -> Message:
        """Commit a producer's transaction as an operator does; return the op as it was stored."""
        element = Element(0, begun.offset, begun.transaction_id)
        op = Op(COMMIT, self.group, (element,), actor=actor)
        return self.produce([op.to_record(self.names.op, begun.queue)])[0]

    def produce(self, records: Iterable[Record]) -> list[Message]:
        """Produce records and return them as they were stored."""
        stored: dict[int, Message] = {}

        def keep(number: int) -> Callable[[Any, Message], None]:
            def delivered(error: Any, message: Message) -> None:
                assert error is None, error
                stored[number] = message

            return delivered

        count = 0
        for number, record in enumerate(records):
            self.producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms,
                on_delivery=keep(number),
            )
            self.producer.poll(0)
            count += 1
        assert self.producer.flush(PATIENCE_SECONDS) == 0
        return [stored[number] for number in range(count)]

    def reader(self, topic: str) -> Reader:
        """Return the reader of a topic, which keeps what it has read."""
        if topic not in self._readers:
            self._readers[topic] = Reader(self.options, topic)
        return self._readers[topic]

    def committed(self, expected: int) -> list[Message]:
        """Return the messages of the real topic once there are `expected` of them."""
        return self.reader(self.real).until(expected)

    def resolutions(self, expected: int) -> list[Resolution]:
        """Return the outcomes once there are `expected` of them."""
        read = self.reader(self.names.resolution).until(expected)
        return [decode_resolution(message.value()) for message in read]

    def outcomes(self, expected: int) -> dict[str, str]:
        """Return each transaction's outcome, by its id, once `expected` of them have one."""
        return {
            resolution.transaction_id: resolution.outcome.value
            for resolution in self.resolutions(expected)
        }

    def checks(self, expected: int) -> list[Message]:
        return self.reader(self.names.check(self.group)).until(expected)

    def quarantined(self, expected: int) -> list[Message]:
        return self.reader(self.names.quarantine).until(expected)

    def discarded(self, expected: int) -> list[Message]:
        return self.reader(self.names.discarded).until(expected)

    def has_open_transaction(self, topic: str) -> bool:
        """Whether a partition has records that a reader of committed ones may not see yet."""
        return held_up(self.options, topic) > 0

    def close(self) -> None:
        """Leave the broker alone: clients that outlive it say so all the time."""
        for reader in self._readers.values():
            reader.close()
        self.producer.close()
        del self.admin


class Reader:
    """Reads a topic from its beginning, committed records only; keeps them in the order read."""

    def __init__(self, options: dict[str, str], topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                **options,
                "group.id": f"test-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # the default would hold up the end of a partition 500 ms
            }
        )
        self._ends: dict[int, int] | None = None
        self.messages: list[Message] = []

    def until(self, expected: int, seconds: float = PATIENCE_SECONDS) -> list[Message]:
        """Read until there are `expected`, then all that are there; fail if that takes too long."""
        until = time.monotonic() + seconds
        while len(self.messages) < expected:
            progress = f"{len(self.messages)} of {expected} records in {self._topic}"
            assert time.monotonic() < until, progress
            self._read(0.2)
        return self.all()

    def all(self) -> list[Message]:
        """Read all that is there now from the beginning, and perhaps some that come meanwhile."""
        self._ends = None
        self.messages = []
        until = time.monotonic() + PATIENCE_SECONDS
        while self._assign():
            assert time.monotonic() < until, f"{self._topic} can't be read to its end"
            self._read(0.2)
        return self.messages

    def close(self) -> None:
        self._consumer.close()

    def _read(self, seconds: float) -> None:
        ends = self._assign()
        if ends is None:
            self._consumer.poll(seconds)
            return
        for message in self._consumer.consume(1_000, seconds):
            partition, offset = position_of(message)
            error = message.error()
            if error is None:
                self.messages.append(message)
                if offset >= ends.get(partition, math.inf) - 1:
                    del ends[partition]
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.pop(partition, None)

    def _assign(self) -> dict[int, int] | None:
        """Begin with all partitions, once the topic is there; return the ends not yet read to.

        librdkafka tells of no end of a topic that is written to all the time. So a record
        behind the end of this moment ends a partition, too.
        """
        if self._ends is None:
            topics = self._consumer.list_topics(timeout=30).topics
            if self._topic not in topics:
                return None
            begin = [
                TopicPartition(self._topic, number, 0) for number in topics[self._topic].partitions
            ]
            self._ends = {partition.partition: self._end_of(partition) for partition in begin}
            self._consumer.assign(begin)
        return self._ends

    def _end_of(self, partition: TopicPartition) -> int:
        """Return a partition's end, once it has a leader: a topic just made may have none."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return int(self._consumer.get_watermark_offsets(partition, 30)[1])
            except KafkaException as error:
                if error.args[0].code() not in _NO_LEADER_YET or time.monotonic() > until:
                    raise
                time.sleep(0.05)


def header(message: Message, name: str) -> str | None:
    """Return a header's value as text, None without it; the last where it is repeated."""
    values = [value for key, value in headers_of(message) if key == name]
    return values[-1].decode() if values and values[-1] is not None else None


def headers_of(message: Message) -> Headers:
    """Return a record's headers; confluent_kafka's types also allow what can only be sent."""
    return cast(Headers, message.headers() or [])


def position_of(message: Message) -> tuple[int, int]:
    """Return a record's partition and offset, which a message that is not stored has not."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


def value_of(message: Message) -> bytes:
    """Return a record's value where it has one."""
    value = message.value()
    assert value is not None
    return value


def warm_transactions(options: dict[str, str]) -> None:
    """Commit in Kafka transactions: a new broker's first ones take longer than fast commits may."""
    topic = f"warm-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({**options})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_SECONDS)
    producer = Producer({**options, "transactional.id": topic})
    producer.init_transactions(PATIENCE_SECONDS)
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"")
        producer.commit_transaction(PATIENCE_SECONDS)
    producer.close()
