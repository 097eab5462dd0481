"""What is known of the topics to be written to, so that what can't be written is told apart."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
)

from ..kafka import admin_client
from ..settings import Settings
from .packed import Message

_MAX_AGE_SECONDS = 60.0
_TIMEOUT_SECONDS = 30.0
#: Bytes of a record batch before its records, and of a record beside its fields.
_BATCH_BYTES = 61
_RECORD_BYTES = 3


class Target(NamedTuple):
    """A topic; `max_bytes` and `compacted` are None where the broker does not tell."""

    partitions: int
    max_bytes: int | None
    compacted: bool | None


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
            self._ask(missing)
        return {topic: self._known[topic] for topic in topics & self._known.keys()}

    def forget(self) -> None:
        """Ask anew next time."""
        self._known = {}
        self._asked_at = time.monotonic()

    def _ask(self, topics: set[str]) -> None:
        admin = admin_client(self._settings)
        # All topics are listed: to ask for one by its name may create it.
        listed = admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
        found = {topic: listed[topic] for topic in topics & listed.keys()}
        configs = _configs(admin, set(found))
        for topic, metadata in found.items():
            config = configs.get(topic)
            self._known[topic] = Target(
                partitions=len(metadata.partitions),
                max_bytes=int(config["max.message.bytes"].value) if config else None,
                compacted="compact" in config["cleanup.policy"].value if config else None,
            )


def _configs(admin: AdminClient, topics: set[str]) -> dict[str, Any]:
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    configs = {}
    for resource, future in admin.describe_configs(resources).items():
        try:
            configs[resource.name] = future.result(_TIMEOUT_SECONDS)
        except KafkaException:
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
