"""Offsets of all half and op partitions, and of the partitions of one topic that answer."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ..errors import ResolverError
from ..protocol import Names
from ..settings import Settings
from .clients import admin_client
from .offset_answers import GRACE_SECONDS, LATEST, ask_offsets, offset_answers

#: Offsets by topic and partition number, as Spark's Kafka source writes them.
QueueOffsets = dict[str, dict[str, int]]

#: Time in seconds for all partitions to answer, where none may be left out.
_ALL_SECONDS = 10.0
#: Pause in seconds before partitions without an answer are asked for again.
_PAUSE_SECONDS = 0.1
#: Time in seconds for an answer, where partitions without one are left out.
_ANSWER_SECONDS = 1.0


def all_offsets(settings: Settings, spec: OffsetSpec) -> QueueOffsets:
    """Return an offset of each half and op partition; raises `ResolverError` if one is missing.

    A broker may not know yet who leads a topic that was just made, so partitions without an answer
    are asked for again, for 10 s in all.
    """
    names, admin = Names(settings.topic_prefix), admin_client(settings)
    until = time.monotonic() + _ALL_SECONDS
    return {
        topic: _all_of(admin, topic, settings.queues, spec, until)
        for topic in (names.half, names.op)
    }


def _all_of(
    admin: AdminClient, topic: str, queues: int, spec: OffsetSpec, until: float
) -> dict[str, int]:
    offsets: dict[str, int] = {}
    failure: KafkaException | None = None
    while len(offsets) < queues:
        missing = [queue for queue in range(queues) if str(queue) not in offsets]
        specs = {TopicPartition(topic, queue): spec for queue in missing}
        seconds = until - time.monotonic()
        if seconds <= 0:
            raise ResolverError(
                f"Kafka does not say where all partitions of {topic} begin or end",
                remedy="start again when each of them has a leader",
            ) from failure
        try:
            futures = ask_offsets(admin, specs, seconds)
        except KafkaException as error:
            failure, futures = error, {}
        for answer in offset_answers(futures, seconds + GRACE_SECONDS):
            offsets[answer.queue] = answer.offset
        if len(offsets) < queues:
            time.sleep(_PAUSE_SECONDS)
    return offsets


class StableEnd(NamedTuple):
    """The offset before which a partition has no open transaction, and its end offset."""

    stable: int
    end: int


def stable_ends(client: AdminClient, topic: str, queues: int) -> dict[int, StableEnd]:
    """Return the ends of a topic's partitions that answer within a second or two.

    The client has heard of the topic, as `ask_offsets` says.

    Raises `ResolverError` for an error that another attempt does not mend.
    """
    specs = {TopicPartition(topic, queue): LATEST for queue in range(queues)}
    ends: list[dict[int, int]] = []
    # Ask for the end last: it is never before the other.
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        futures = client.list_offsets(
            specs, isolation_level=isolation, request_timeout=_ANSWER_SECONDS
        )
        answers = offset_answers(futures, _ANSWER_SECONDS + GRACE_SECONDS)
        ends.append({int(answer.queue): answer.offset for answer in answers})
    stable, last = ends
    return {queue: StableEnd(stable[queue], last[queue]) for queue in stable.keys() & last.keys()}
