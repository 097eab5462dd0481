"""Questions to Kafka about topics; every wait is bounded."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    TopicMetadata,
)

from ..errors import NoBroker, TopicSettingsError
from .topic_specs import TopicSpec

T = TypeVar("T")
_TIMEOUT_SECONDS = 30.0
_BETWEEN_LOOKS_SECONDS = 0.05
_REMEDIES = {
    KafkaError.INVALID_REPLICATION_FACTOR: "set replication_factor to at most the brokers",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant Create and Describe on it",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant Create on the topics or the cluster",
}


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic as the metadata show it; `led`: every partition has a leader."""

    partitions: int
    replicas: int
    led: bool


def existing_topics(admin: AdminClient) -> dict[str, ExistingTopic]:
    """Return the cluster's topics by name."""
    try:
        topics = admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
    except KafkaException as error:
        raise _unreachable(error) from error
    return {name: _existing(topic) for name, topic in topics.items() if topic.partitions}


def matching_topics(admin: AdminClient, pattern: str) -> list[str]:
    """Return the names of the cluster's topics that match a regular expression as a whole."""
    return [name for name in existing_topics(admin) if re.fullmatch(pattern, name)]


def _existing(topic: TopicMetadata) -> ExistingTopic:
    partitions = topic.partitions.values()
    return ExistingTopic(
        len(partitions),
        min(len(partition.replicas) for partition in partitions),
        all(partition.leader >= 0 for partition in partitions),
    )


def create_topics(admin: AdminClient, specs: list[TopicSpec], replicas: int) -> set[str]:
    """Make topics; return the names of all but those that another client made meanwhile."""
    if not specs:
        return set()
    new = [
        NewTopic(spec.name, spec.partitions, replicas, config=dict(spec.config)) for spec in specs
    ]
    futures = admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS)
    return {name for name, future in futures.items() if _was_made(name, future)}


def _was_made(name: str, future: Future[Any]) -> bool:
    try:
        future.result(timeout=2 * _TIMEOUT_SECONDS)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise TopicSettingsError(
            f"topic {name} can't be made: {reason.str()}",
            remedy=_REMEDIES.get(reason.code(), "see the log of the broker"),
        ) from error
    return True


def await_topics(
    admin: AdminClient, names: Sequence[str], unled: Collection[str] = ()
) -> dict[str, ExistingTopic]:
    """Wait until the metadata show the topics: their creation returns before every broker knows.

    Each partition must have a leader, except in topics that may be `unled`.
    """

    def look() -> dict[str, ExistingTopic] | None:
        existing = existing_topics(admin)
        led = {name for name, topic in existing.items() if topic.led or name in unled}
        complete = led.issuperset(names)
        return {name: existing[name] for name in names} if complete else None

    return await_seen(look, f"topics {', '.join(names)} did not appear")


def describe_topics(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    """Read the settings of topics, including the broker's defaults."""

    def look() -> dict[str, dict[str, str]] | None:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        futures = admin.describe_configs(resources, request_timeout=_TIMEOUT_SECONDS)
        try:
            return {
                resource.name: {
                    key: entry.value or ""
                    for key, entry in future.result(timeout=2 * _TIMEOUT_SECONDS).items()
                }
                for resource, future in futures.items()
            }
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None  # this broker does not know the new topic yet
            raise TopicSettingsError(
                f"settings of topics {', '.join(names)} can't be read: {error.args[0].str()}",
                remedy="grant DescribeConfigs on them",
            ) from error

    return await_seen(look, f"settings of topics {', '.join(names)} did not appear")


def identify_topics(admin: AdminClient, names: list[str]) -> dict[str, str]:
    """Return the ids of topics: a topic that was deleted and made again has a new id."""
    futures = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_SECONDS)
    try:
        return {
            name: str(future.result(timeout=2 * _TIMEOUT_SECONDS).topic_id)
            for name, future in futures.items()
        }
    except KafkaException as error:
        raise TopicSettingsError(
            f"topics {', '.join(names)} can't be described: {error.args[0].str()}",
            remedy="see the log of the broker",
        ) from error


def await_seen(look: Callable[[], T | None], failure: str) -> T:
    """Call `look` until it returns a value, or raise `TopicSettingsError` with `failure`."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        seen = look()
        if seen is not None:
            return seen
        if time.monotonic() > deadline:
            raise TopicSettingsError(
                f"{failure} within {_TIMEOUT_SECONDS:.0f} s", remedy="see that all brokers are up"
            )
        time.sleep(_BETWEEN_LOOKS_SECONDS)


def _unreachable(error: KafkaException) -> NoBroker:
    return NoBroker(
        f"no broker answered within {_TIMEOUT_SECONDS:.0f} s ({error.args[0].str()})",
        remedy="check bootstrap_servers and the security options of [kafka]",
    )
