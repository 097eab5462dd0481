"""Faults of the real topic: it is made again, with messages lost, doubled or changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_END, KafkaError, Message, Producer, TopicPartition

from resolver.audit.report import Invariant
from resolver.kafka.topic_admin import await_topics
from resolver.protocol import Headers, Record
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import Sent, header, headers_of

from .damage import Damage
from .ledger_story import Story

Change = Callable[[Record], list[Record]]


def forget_landed(story: Story) -> None:
    """Delete from Kafka what has landed: what the tables have no more can't be read there."""
    world, names = story.world, story.world.names
    topics = world.admin.list_topics(timeout=10).topics
    places = [
        TopicPartition(name, partition, OFFSET_END)
        for name in (names.resolution, names.discarded, names.quarantine)
        for partition in topics[name].partitions
    ]
    for deleted in world.admin.delete_records(places).values():
        deleted.result(PATIENCE_SECONDS)


def commit_unlanded(story: Story) -> None:
    """Write an outcome that is only in Kafka, to each partition: from some all has landed."""
    topic, sent = story.world.names.resolution, story.lifted
    value = json.dumps({"queue": sent.queue, "offset": sent.offset}).encode()
    partitions = story.world.admin.list_topics(timeout=10).topics[topic].partitions
    story.world.produce(Record(topic, None, value, [], partition) for partition in partitions)


def damage_topic(story: Story) -> Iterator[Damage]:
    """Make the real topic again, with some of its messages lost, doubled or changed."""
    world = story.world
    kept = {header(one, "HALF_OFFSET"): one for one in world.reader(world.real).all()}
    plain = reversed(story.committed)
    changes: dict[str | None, Change] = {}
    for name, change in _CHANGES.items():
        sent = next(plain)
        changes[sent.half_id] = change
        yield Damage(name, Invariant.DELIVERED, sent.half.transaction_id, sent.half_id)
    placed = story.committed[40]
    changes[placed.half_id] = lambda record: []
    moved = _record(kept[placed.half_id])
    yield Damage("elsewhere", Invariant.DELIVERED, placed.half.transaction_id, placed.half_id)
    for sent in (story.by_name["asked"], story.by_name["settled"]):
        # Nothing that was committed before is there: as if the topic was made after them.
        changes[sent.half_id] = lambda record: []
        yield Damage("a first one", Invariant.DELIVERED, sent.half.transaction_id, sent.half_id)
    ghosts = [story.rolled_back[-1], story.by_name["given_up"], story.by_name["pending"]]
    for sent in ghosts:
        yield Damage("a ghost", Invariant.NOT_DELIVERED, sent.half.transaction_id, sent.half_id)
    world.admin.delete_topics([world.real])[world.real].result(PATIENCE_SECONDS)
    world.await_gone(world.real)
    world.make_topic(world.real, world.partitions)
    await_topics(world.admin, [world.real])
    records = [
        changed
        for at, message in kept.items()
        for changed in changes.get(at, _unchanged)(_record(message))
    ]
    # Last: before a message of an earlier op that message would be out of order too.
    records += _changed(moved, partition=(moved.partition + 1) % 3)
    _produce(story, [*records, *(_ghost(sent) for sent in ghosts)])


def _record(message: Message) -> Record:
    return Record(
        str(message.topic()),
        message.key(),
        message.value(),
        headers_of(message),
        message.partition() or 0,
        message.timestamp()[1],
    )


def _ghost(sent: Sent) -> Record:
    headers: Headers = [
        ("UNIQ_KEY", sent.half.transaction_id.encode()),
        ("PGROUP", sent.half.group.encode()),
        ("HALF_OFFSET", sent.half_id.encode()),
    ]
    half = sent.half
    return Record(half.topic, half.key, half.body, headers, 0, sent.stored_at_ms)


def _produce(story: Story, records: list[Record]) -> None:
    """Write with a producer that keeps the order when it tries again.

    A topic that was just made may refuse the first records.
    """
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    with closing(Producer({**story.world.options, "enable.idempotence": True})) as producer:
        for record in records:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0
    assert failed == []


def _unchanged(record: Record) -> list[Record]:
    return [record]


def _changed(record: Record, **fields: Any) -> list[Record]:
    return [record._replace(**fields)]


_CHANGES: dict[str, Change] = {
    "lost": lambda record: [],
    "doubled": lambda record: [record, record],
    "another body": lambda record: _changed(record, value=b"another"),
    "a key for none": lambda record: _changed(record, key=b"" if record.key is None else None),
    "another time": lambda record: _changed(record, timestamp_ms=record.timestamp_ms + 1),
    "another header": lambda record: _changed(record, headers=[("a", b"2"), *record.headers]),
}
