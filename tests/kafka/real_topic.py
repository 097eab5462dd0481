"""A real topic in a test: made, committed to as a worker decides, and read as a consumer does."""

from __future__ import annotations

import uuid

import msgpack
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from resolver.protocol import Half, HalfAt, Names, Outcome, Resolution, Source, commit_record
from resolver.protocol.record import Headers
from resolver.resolve.delivery.packed import Decision, as_output
from resolver.settings import Settings
from tests.support.leftovers import wait_until
from tests.support.patience import PATIENCE_SECONDS


def make_real(settings: Settings, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_SECONDS)
    # The broker learns of it a little later than the controller has made it.
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)
    return topic


def commit(
    topic: str,
    offset: int,
    stored_at_ms: int,
    names: Names,
    partition: int | None = None,
    key: bytes | None = None,
    headers: Headers | None = None,
) -> Decision:
    value, own = str(offset).encode(), headers or []
    half = Half(str(offset), "orders", topic, 0, key, value, own, partition)
    at = HalfAt(0, offset, stored_at_ms, half, half.to_record(names.half, 0).headers)
    said = Resolution(
        transaction_id=str(offset), queue=0, offset=offset, outcome=Outcome.COMMIT,
        source=Source.END, group="orders", topic=topic, op_offset=0, checks=0, answered=0,
        born_at=0, stored_at=stored_at_ms, ended_at=0, decided_at=0, batch_id=0, query_id="q",
    )  # fmt: skip
    outcome = as_output(said.to_record(names.resolution))
    return Decision(as_output(commit_record(at)), outcome, msgpack.packb(at.all_headers))


def values(settings: Settings, topic: str, partition: int = 0) -> list[bytes | None]:
    """Return the committed values of a partition, in order, once no transaction is open in it."""
    place = TopicPartition(topic, partition, 0)
    _await_markers(settings, place)
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([place])
    values = []
    while (message := _next(consumer)) is not None:
        values.append(message.value())
    consumer.close()
    return values


def _next(consumer: Consumer) -> Message | None:
    """Return the next message, or None at the end; anything else is an error."""
    message = consumer.poll(PATIENCE_SECONDS)
    assert message is not None, f"nothing came within {PATIENCE_SECONDS} s"
    if (error := message.error()) is None:
        return message
    assert error.code() == KafkaError._PARTITION_EOF, str(error)
    return None


def _await_markers(settings: Settings, place: TopicPartition) -> None:
    """Wait until no transaction is open in a partition.

    Kafka answers a commit before it writes the markers; until they are there, nobody sees the
    records of the commit.
    """
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})

    def end(isolation: IsolationLevel) -> int:
        latest = {place: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        return int(
            admin.list_offsets(latest, isolation_level=isolation)[place]
            .result(PATIENCE_SECONDS)
            .offset
        )

    wait_until(lambda: end(IsolationLevel.READ_COMMITTED) == end(IsolationLevel.READ_UNCOMMITTED))
