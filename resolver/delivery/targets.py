"""What is known of the topics to be written to, so that what can't be written is told apart."""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
)

from ..kafka import admin_client
from ..settings import Settings
from .packed import Message

_MAX_AGE_SECONDS = 60.0
_TIMEOUT_SECONDS = 30.0
_NO_LIMIT = 2**63 - 1
#: A topic that we may not even describe is, to us, not there.
_NOT_THERE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
#: Bytes of a record batch before its records, and of a record beside its fields.
_BATCH_BYTES = 61
_RECORD_BYTES = 3


class Target(NamedTuple):
    """A topic; `max_bytes` is None where the broker does not tell us, `oldest_ms` without a limit.

    `stalled`: partitions that take nothing now, for want of a leader or of replicas in sync.
    `oldest_ms`: how long ago a message's own time may be.
    """

    partitions: int
    stalled: tuple[int, ...]
    writable: bool
    compacted: bool
    max_bytes: int | None
    oldest_ms: int | None


class Targets:
    """Topics by name, asked of the cluster again after a minute."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, Target] = {}
        self._asked_at = 0.0

    def look_up(self, topics: set[str]) -> dict[str, Target]:
        """Return those of the topics that exist."""
        if time.monotonic() - self._asked_at > _MAX_AGE_SECONDS:
            self.forget()
        missing = topics - self._known.keys()
        if missing:
            self._known |= _ask(admin_client(self._settings), sorted(missing))
        return {topic: self._known[topic] for topic in topics & self._known.keys()}

    def forget(self) -> None:
        """Ask anew next time."""
        self._known = {}
        self._asked_at = time.monotonic()


def _ask(admin: AdminClient, topics: list[str]) -> dict[str, Target]:
    """Describe those of the topics that exist; to describe one never makes it."""
    asked = admin.describe_topics(
        TopicCollection(topics),
        include_authorized_operations=True,
        request_timeout=_TIMEOUT_SECONDS,
    )
    described = {}
    for topic, future in asked.items():
        try:
            described[topic] = future.result(_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_THERE:
                raise
    configs = _configs(admin, list(described))
    return {topic: _target(found, configs.get(topic)) for topic, found in described.items()}


def _target(found: Any, config: dict[str, Any] | None) -> Target:
    allowed = found.authorized_operations
    return Target(
        partitions=len(found.partitions),
        stalled=_stalled(found, config),
        # Kafka says of its own topics that they may be written, and refuses them, namelessly.
        writable=not found.is_internal
        and (not allowed or AclOperation.WRITE in allowed or AclOperation.ALL in allowed),
        compacted=config is not None and "compact" in config["cleanup.policy"].value,
        max_bytes=int(config["max.message.bytes"].value) if config else None,
        oldest_ms=_oldest(config) if config else None,
    )


def _stalled(found: Any, config: dict[str, Any] | None) -> tuple[int, ...]:
    fewest = int(config["min.insync.replicas"].value) if config else 1
    return tuple(
        one.id
        for one in found.partitions
        # Kafka asks for no more replicas in sync than there are.
        if not one.leader or len(one.isr) < min(fewest, len(one.replicas))
    )


def _oldest(config: dict[str, Any]) -> int | None:
    limit = config.get("message.timestamp.before.max.ms")
    by_broker = config["message.timestamp.type"].value == "LogAppendTime"
    if limit is None or by_broker or int(limit.value) == _NO_LIMIT:
        return None
    return int(limit.value)


def _configs(admin: AdminClient, topics: list[str]) -> dict[str, Any]:
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    configs = {}
    for resource, future in admin.describe_configs(resources).items():
        try:
            configs[resource.name] = future.result(_TIMEOUT_SECONDS)
        except (KafkaException, FutureTimeout):
            continue  # not allowed: what the topic refuses is found out by sending
    return configs


def batch_bytes(message: Message) -> int:
    """Return the bytes of a record batch that holds this one message, uncompressed."""
    body = _field(message.key) + _field(message.value) + _varint(len(message.headers))
    for name, value in message.headers:
        body += _field(name.encode()) + _field(value)
    body += _RECORD_BYTES
    return _BATCH_BYTES + _varint(body) + body


def _field(value: bytes | None) -> int:
    return 1 if value is None else _varint(len(value)) + len(value)


def _varint(number: int) -> int:
    """Return the bytes of a number in zigzag encoding."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
