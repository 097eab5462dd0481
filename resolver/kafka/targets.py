"""Facts about topics, and the rules by which a message fits its real topic.

Delivery tells undeliverable messages apart by them. A producer refuses the same messages before
anything is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from enum import Enum, auto
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
)

#: Seconds for an answer of the first broker that is asked.
FIRST_SECONDS = 1.0
_NO_LIMIT = 2**63 - 1
_SILENCE = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
#: Bytes of a record batch before its records, and of a record beside its fields.
_BATCH_BYTES = 61
_RECORD_BYTES = 3


class Target(NamedTuple):
    """A topic to be written to.

    - `internal`: whether it is Kafka's own.
    - `stalled`: partitions that take no records now: no leader, or too few replicas in sync.
    - `leaderless`: partitions that can't be read either.
    - `writable`: whether we may write to it.
    - `max_bytes`: None if the broker does not tell us its settings.
    - `oldest_ms`: how long ago a message's own time may be; None without a limit.
    - `is_stamped_by_broker`: whether a message's own time is not kept; true if that is not known.
    """

    partitions: int
    internal: bool
    stalled: tuple[int, ...]
    leaderless: tuple[int, ...]
    writable: bool
    compacted: bool
    max_bytes: int | None
    oldest_ms: int | None
    fewest_in_sync: int
    is_stamped_by_broker: bool


class Described(NamedTuple):
    """The existing ones of some topics, and those that we may not describe.

    Kafka does not say whether a topic of the second kind exists.
    """

    targets: dict[str, Target]
    hidden: frozenset[str]


class Obstacle(Enum):
    """A reason why a message does not fit its real topic."""

    MISSING = auto()
    INTERNAL = auto()
    PARTITION = auto()
    KEY = auto()
    SIZE = auto()


class Misfit(NamedTuple):
    """An obstacle, in words."""

    obstacle: Obstacle
    error: str


def missing(topic: str) -> Misfit:
    """Return the misfit of each message for a topic that is not there."""
    return Misfit(Obstacle.MISSING, f"topic {topic} does not exist")


def find_misfit(topic: str, target: Target, partition: int, key: bytes | None) -> Misfit | None:
    """Return why a message of any size does not fit its topic; `partition` is -1 for any."""
    if target.internal:
        return Misfit(Obstacle.INTERNAL, f"topic {topic} is Kafka's own")
    if partition >= target.partitions:
        error = f"partition {partition} is not there: {topic} has {target.partitions}"
        return Misfit(Obstacle.PARTITION, error)
    if target.compacted and key is None:
        return Misfit(Obstacle.KEY, f"topic {topic} is compacted and the message has no key")
    return None


def too_large(topic: str, target: Target, size: int) -> Misfit | None:
    """Return why a message that takes `size` bytes, uncompressed, does not fit its topic."""
    if target.max_bytes is None or size <= target.max_bytes:
        return None
    limit = f"max.message.bytes={target.max_bytes}"
    return Misfit(Obstacle.SIZE, f"{size} bytes are more than {limit} of topic {topic}")


def batch_bytes(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> int:
    """Return the bytes of a record batch that holds this one message, uncompressed."""
    body = _field(key) + _field(value) + _varint(len(headers))
    for name, content in headers:
        body += _field(name.encode()) + _field(content)
    body += _RECORD_BYTES
    return _BATCH_BYTES + _varint(body) + body


def ask(make_admin: Callable[[], AdminClient], topics: list[str], give_up_at: float) -> Described:
    """Describe topics, by a new client if the broker that is asked does not answer.

    Any broker may be asked that Kafka takes for alive, even a broker that has just fallen silent.
    """
    timeout_seconds = FIRST_SECONDS
    while True:
        try:
            return describe(make_admin(), topics, timeout_seconds)
        except (KafkaException, FutureTimeout) as error:
            if not is_silence(error) or time.monotonic() > give_up_at:
                raise
            timeout_seconds *= 2


def is_silence(error: Exception) -> bool:
    """Whether no broker answered."""
    return isinstance(error, FutureTimeout) or error.args[0].code() in _SILENCE


def describe(admin: AdminClient, topics: list[str], timeout_seconds: float) -> Described:
    """Describe those of the topics that exist; describing a topic never makes it."""
    futures = admin.describe_topics(
        TopicCollection(topics),
        include_authorized_operations=True,
        request_timeout=timeout_seconds,
    )
    described, hidden = {}, set()
    for topic, future in futures.items():
        try:
            described[topic] = future.result(timeout_seconds)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                hidden.add(topic)
            elif error.args[0].code() not in _MISSING:
                raise
    configs = _configs(admin, list(described), timeout_seconds)
    targets = {
        topic: _target(description, configs.get(topic)) for topic, description in described.items()
    }
    return Described(targets, frozenset(hidden))


def _target(description: Any, config: dict[str, Any] | None) -> Target:
    allowed = description.authorized_operations
    return Target(
        partitions=len(description.partitions),
        internal=description.is_internal,
        stalled=_stalled(description, config),
        leaderless=tuple(
            partition.id for partition in description.partitions if not partition.leader
        ),
        writable=not allowed or AclOperation.WRITE in allowed or AclOperation.ALL in allowed,
        compacted=config is not None and "compact" in config["cleanup.policy"].value,
        max_bytes=int(config["max.message.bytes"].value) if config else None,
        oldest_ms=_oldest(config) if config else None,
        fewest_in_sync=int(config["min.insync.replicas"].value) if config else 1,
        is_stamped_by_broker=config is None or _is_stamped_by_broker(config),
    )


def _stalled(description: Any, config: dict[str, Any] | None) -> tuple[int, ...]:
    fewest = int(config["min.insync.replicas"].value) if config else 1
    return tuple(
        partition.id
        for partition in description.partitions
        # Kafka asks for no more replicas in sync than there are.
        if not partition.leader or len(partition.isr) < min(fewest, len(partition.replicas))
    )


def _oldest(config: dict[str, Any]) -> int | None:
    limit = config.get("message.timestamp.before.max.ms")
    if limit is None or _is_stamped_by_broker(config) or int(limit.value) == _NO_LIMIT:
        return None
    return int(limit.value)


def _is_stamped_by_broker(config: dict[str, Any]) -> bool:
    return bool(config["message.timestamp.type"].value == "LogAppendTime")


def _configs(admin: AdminClient, topics: list[str], timeout_seconds: float) -> dict[str, Any]:
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    configs = {}
    for resource, future in admin.describe_configs(
        resources, request_timeout=timeout_seconds
    ).items():
        try:
            configs[resource.name] = future.result(timeout_seconds)
        except KafkaException as error:
            if is_silence(error):
                raise
            continue  # not allowed: sending shows what the topic refuses
    return configs


def _field(value: bytes | None) -> int:
    return 1 if value is None else _varint(len(value)) + len(value)


def _varint(number: int) -> int:
    """Return how many bytes a number takes in zigzag encoding."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
