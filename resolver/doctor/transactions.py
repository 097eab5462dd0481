"""Open transactions that Kafka should have ended.

Consumers with `read_committed` see no record from the first of theirs on. Kafka 4.3.1 writes no
marker to a partition that has no leader then, and never does so later (KAFKA-20734).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait
from contextlib import closing

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from ..kafka.clients import reader_config
from ..kafka.offset_answers import GRACE_SECONDS, LATEST
from ..settings import Settings
from .cluster import settings_of, some
from .finding import Finding, error, ok, warning

#: Time in seconds for the ends of all partitions, and for reading all records.
_ANSWER_SECONDS, _READ_SECONDS = 10.0, 30.0
#: Time in seconds for which a transaction is looked at: most end meanwhile. The age of a record
#: does not tell, as its producer sets its time.
_LOOK_SECONDS, _PAUSE_SECONDS = 3.0, 0.2
#: Kafka's default for `transaction.max.timeout.ms`, and its time in ms from one look at
#: transactions whose time is over to the next.
_LIMIT_MS, _CLEANUP_MS = 900_000, 10_000
#: Bytes of a fetch: one record of each partition is read.
_FETCH_BYTES = 65_536

#: A topic and the number of a partition.
_Partition = tuple[str, int]


def transactions(
    admin: AdminClient, cluster: ClusterMetadata, settings: Settings
) -> Iterator[Finding]:
    """Yield the partitions of all visible topics in which a transaction stays open."""
    led = _led(cluster)
    visible = _ends(admin, led, IsolationLevel.READ_COMMITTED)
    if silent := _named(set(led) - set(visible)):
        seen = f"no answer where these end: {some(silent)}"
        yield warning("transactions", seen, "look whether a broker is down or slow, and ask again")
    if standing := _standing(admin, visible):
        yield from _judged(standing, _first_records(standing, settings), _limit_ms(admin, cluster))
    elif not silent:
        yield ok("transactions", "none stays open in a partition that has a leader")


def _judged(
    standing: Mapping[_Partition, int], records: Mapping[_Partition, int | str], limit_ms: int
) -> Iterator[Finding]:
    """Yield what to say of open transactions; `records` has the times of their first records."""
    now_ms = time.time_ns() // 1_000_000
    ages = {each: now_ms - read for each, read in records.items() if isinstance(read, int)}
    old = {each: age for each, age in ages.items() if age > limit_ms + _CLEANUP_MS}
    limit = f"Kafka's limit of {limit_ms / 60_000:,.0f} min"
    for (topic, number), age in sorted(old.items()):
        yield error(
            f"partition {topic}:{number}",
            f"a transaction is open from offset {standing[topic, number]} on, and its first record "
            f"is {age / 60_000:,.0f} min old: consumers with read_committed see nothing from there",
            f"that is beyond {limit}; how to tell whether Kafka has forgotten it is in "
            'docs/operating.md, "A transaction that never ends"',
        )
    if young := _named(set(ages) - set(old)):
        yield ok("transactions", f"some are open, for less than {limit}: {some(young)}")
    reasons = {each: read for each, read in records.items() if isinstance(read, str)}
    if reasons:
        yield warning(
            "transactions",
            f"open, and nobody knows for how long: {some(_named(reasons))}; "
            f"{', '.join(sorted(set(reasons.values())))}",
            "grant this login Read on the topic if Kafka refuses, and ask again",
        )


def _named(partitions: Collection[_Partition]) -> list[str]:
    return sorted(f"{topic}:{number}" for topic, number in partitions)


def _led(cluster: ClusterMetadata) -> list[_Partition]:
    return [
        (name, number)
        for name, topic in cluster.topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader >= 0
    ]


def _standing(admin: AdminClient, visible: Mapping[_Partition, int]) -> dict[_Partition, int]:
    """Return the first offset of each transaction that stays open while it is looked at.

    `visible` has the offset of each partition before which no transaction is open.
    """
    stored = _ends(admin, visible, IsolationLevel.READ_UNCOMMITTED)
    standing = {each: visible[each] for each, end in stored.items() if visible[each] < end}
    until = time.monotonic() + _LOOK_SECONDS
    while standing and time.monotonic() < until:
        time.sleep(_PAUSE_SECONDS)
        now = _ends(admin, standing, IsolationLevel.READ_COMMITTED)
        standing = {
            each: first for each, first in standing.items() if now.get(each, first) == first
        }
    return standing


def _ends(
    admin: AdminClient, partitions: Collection[_Partition], isolation: IsolationLevel
) -> dict[_Partition, int]:
    """Return the ends of the partitions that answer."""
    if not partitions:
        return {}
    futures = admin.list_offsets(
        {TopicPartition(*each): LATEST for each in partitions},
        isolation_level=isolation,
        request_timeout=_ANSWER_SECONDS,
    )
    wait(futures.values(), _ANSWER_SECONDS + GRACE_SECONDS)
    ends = {
        (each.topic, each.partition): int(future.result().offset)
        for each, future in futures.items()
        if future.done() and future.exception() is None
    }
    # librdkafka returns a negative offset if the broker did not answer.
    return {each: end for each, end in ends.items() if end >= 0}


def _limit_ms(admin: AdminClient, cluster: ClusterMetadata) -> int:
    """Return the limit of the first broker that tells it, else Kafka's default."""
    for broker in cluster.brokers:
        try:
            config = settings_of(admin, broker)
        except (KafkaException, FutureTimeout):
            continue
        return int(config.get("transaction.max.timeout.ms") or _LIMIT_MS)
    return _LIMIT_MS


def _first_records(
    standing: Mapping[_Partition, int], settings: Settings
) -> dict[_Partition, int | str]:
    """Return the time of the record at each offset; a text if it can't be read."""
    ours = {
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
        "fetch.message.max.bytes": _FETCH_BYTES,
    }
    until = time.monotonic() + _READ_SECONDS
    with closing(Consumer(reader_config(settings, **ours))) as consumer:
        return {
            each: _time_ms(consumer, TopicPartition(*each, first), until - time.monotonic())
            for each, first in standing.items()
        }


def _time_ms(consumer: Consumer, first: TopicPartition, seconds: float) -> int | str:
    consumer.assign([first])
    message = consumer.poll(max(0.0, seconds))
    if message is None:
        return "no answer"
    if failed := message.error():
        return str(failed.str())
    kind, time_ms = message.timestamp()
    return "its record has no time" if kind == TIMESTAMP_NOT_AVAILABLE else int(time_ms)
