"""Asking leaders for offsets, and their answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ..errors import ResolverError

LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
#: Time in seconds that answers may come after their request's time-out. Where one broker is silent,
#: librdkafka hands out the answers of the others only then.
GRACE_SECONDS = 0.5
#: Errors of a broker that is away and comes back.
_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._NOENT,  # "No leaders found"
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def ask_offsets(
    client: AdminClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    seconds: float,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, Future[Any]]:
    """Ask for the offsets of those of the partitions that have a leader.

    The client hears of the topics first. Where it knows no topic or leader, librdkafka works on one
    object in two threads. Metadata that arrives then may end the process, by a segmentation fault.
    Raises `KafkaException` if no broker names the leaders within `seconds`.
    """
    led = led_partitions(client, {partition.topic for partition in specs}, seconds)
    asked = {each: spec for each, spec in specs.items() if (each.topic, each.partition) in led}
    if not asked:
        return {}
    return client.list_offsets(asked, isolation_level=isolation, request_timeout=seconds)


def led_partitions(client: AdminClient, topics: Set[str], seconds: float) -> set[tuple[str, int]]:
    """Return the partitions of topics that have a leader; the client knows the topics then.

    Raises `KafkaException` if no broker answers within `seconds`.
    """
    one = next(iter(topics)) if len(topics) == 1 else None  # None: all topics, in one request
    known = client.list_topics(one, timeout=seconds).topics
    return {
        (topic, number)
        for topic in topics & known.keys()
        for number, partition in known[topic].partitions.items()
        if partition.leader >= 0
    }


class OffsetAnswer(NamedTuple):
    """An offset of a queue's partition, and the epoch of the leader that told it."""

    queue: str
    offset: int
    epoch: int


def offset_answers(
    futures: Mapping[TopicPartition, Future[Any]], seconds: float
) -> Iterable[OffsetAnswer]:
    """Yield the offsets that come within `seconds`."""
    # Limit the wait here: after a restart of the broker a future may stay open, whatever the
    # time-out of its request.
    until = time.monotonic() + seconds
    for partition, future in futures.items():
        answer = _answer(partition, future, max(0.0, until - time.monotonic()))
        # librdkafka returns a negative offset if the broker did not answer.
        if answer is not None and answer.offset >= 0:
            yield answer


def _answer(partition: TopicPartition, future: Future[Any], seconds: float) -> OffsetAnswer | None:
    """Return a partition's offset; None if its broker is away."""
    try:
        offset_info = future.result(seconds)
        epoch = -1 if offset_info.leader_epoch is None else int(offset_info.leader_epoch)
        return OffsetAnswer(str(partition.partition), int(offset_info.offset), epoch)
    except FutureTimeout:
        return None
    except KafkaException as error:
        if error.args[0].code() in _AWAY:
            return None
        raise ResolverError(
            f"the end of partition {partition.partition} of {partition.topic}: {error}",
            remedy="see the log of the broker, and start again",
        ) from error
