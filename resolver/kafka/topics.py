"""Makes the protocol's topics, and verifies existing ones.

Settings that break the protocol are refused, with the command that puts them right. Other settings
are left as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka.admin import AdminClient

from ..errors import SettingsError, TopicSettingsError
from ..protocol.groups import check_apart, check_group
from ..protocol.names import MAX_TOPIC_LENGTH, Names, legal_topic
from ..settings import Settings
from .clients import admin_client
from .topic_admin import (
    ExistingTopic,
    await_topics,
    create_topics,
    describe_topics,
    existing_topics,
)
from .topic_specs import TopicSpec, broken, output_topics, queue_topics, real_topic

__all__ = ["Topic", "ensure_real_topics", "ensure_topics"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that satisfies the protocol; `note` names differences that were left."""

    name: str
    action: Literal["created", "verified"]
    partitions: int
    replication_factor: int
    note: str = ""


def ensure_topics(
    admin: AdminClient, settings: Settings, groups: Iterable[str] = (), create: bool = True
) -> list[Topic]:
    """Make the missing topics and verify the others, existing check topics included.

    Returns when the cluster's metadata show all of them, with leaders. An existing half, op or
    check topic that lacks a leader causes a warning only. Raises `TopicSettingsError` for a topic
    at fault, and with `create=False` for a missing topic. If an existing half or op topic is at
    fault, nothing was made.
    """
    names = Names(settings.topic_prefix)
    existing = existing_topics(admin)
    _check_queues(names, settings, existing)
    wanted = set(groups)
    for group in wanted:
        check_group(group, names.prefix)
    existing_groups = [
        checked for name in existing if (checked := names.checked_group(name)) is not None
    ]
    check_apart(wanted, [*existing_groups, *settings.groups])
    ensure = _Ensure(admin, settings, create, existing)
    queues = queue_topics(settings)
    done = ensure(queues)
    _check_queues(names, settings, ensure.topics)  # another client may have made them meanwhile
    half, op = (ensure.configs[spec.name] for spec in queues)
    return done + ensure(output_topics(settings, sorted(wanted.union(existing_groups)), half, op))


def ensure_real_topics(
    admin: AdminClient, settings: Settings, topics: Iterable[str], partitions: int
) -> list[Topic]:
    """Make the real topics that are missing; existing ones stay as they are."""
    for topic in topics:
        _check_real(topic, settings.topic_prefix)
    specs = [real_topic(settings, topic, partitions) for topic in sorted(set(topics))]
    return _Ensure(admin, settings, True, existing_topics(admin))(specs) if specs else []


def _check_real(topic: str, prefix: str) -> None:
    if not legal_topic(topic):
        raise SettingsError(
            f"topic is {topic!r}",
            remedy=f"give 1 to {MAX_TOPIC_LENGTH} of a-z A-Z 0-9 . _ -, and neither '.' nor '..'",
        )
    if topic.startswith(prefix):
        raise SettingsError(
            f"topic is {topic!r}; topics under the prefix {prefix!r} are the protocol's own",
            remedy="choose another name",
        )


class _Ensure:
    """Ensures topics; remembers their metadata and their settings."""

    def __init__(
        self,
        admin: AdminClient,
        settings: Settings,
        create: bool,
        existing: dict[str, ExistingTopic],
    ) -> None:
        self._admin = admin
        self._settings = settings
        self._create = create
        self._existing = existing
        names = Names(settings.topic_prefix)
        #: Existing topics whose missing leader concerns one group or one queue, and must not stop
        #: the others.
        self._may_be_unled = {
            name for name in existing
            if name in (names.half, names.op) or names.checked_group(name) is not None
        }  # fmt: skip
        self.topics: dict[str, ExistingTopic] = {}
        self.configs: dict[str, dict[str, str]] = {}

    def __call__(self, specs: Sequence[TopicSpec]) -> list[Topic]:
        made = self._make([spec for spec in specs if spec.name not in self._existing])
        names = [spec.name for spec in specs]
        self.topics |= await_topics(self._admin, names, self._may_be_unled)
        self.configs |= describe_topics(self._admin, names)
        return [self._verified(spec, spec.name in made) for spec in specs]

    def _make(self, missing: list[TopicSpec]) -> set[str]:
        if missing and not self._create:
            names = ", ".join(spec.name for spec in missing)
            raise TopicSettingsError(
                f"missing topics: {names}", remedy="make them with `txresolver topics create`"
            )
        return create_topics(self._admin, missing, self._settings.replication_factor)

    def _verified(self, spec: TopicSpec, made: bool) -> Topic:
        topic = self.topics[spec.name]
        servers = self._settings.bootstrap_servers
        for rule, value in broken(spec, self.configs[spec.name], topic.replicas):
            raise TopicSettingsError(
                f"topic {spec.name} has {rule.setting}={value}; the protocol needs {rule.needed} "
                f"({rule.why})",
                remedy=f"put it right with: kafka-configs.sh --bootstrap-server {servers} --alter "
                f"--entity-type topics --entity-name {spec.name} --add-config "
                f"{rule.setting}={rule.fix}",
            )
        return Topic(
            spec.name,
            "created" if made else "verified",
            topic.partitions,
            topic.replicas,
            self._note(spec.name, topic),
        )

    def _note(self, name: str, topic: ExistingTopic) -> str:
        wanted = self._settings.replication_factor
        few = f"replication_factor is set to {wanted}" if topic.replicas < wanted else ""
        unled = "" if topic.led else "a partition has no leader"
        if unled:
            logger.warning("topic %s: %s; what concerns it waits, the others go on", name, unled)
        return "; ".join(filter(None, (few, unled)))


def verify_queues(settings: Settings) -> None:
    """Raise `TopicSettingsError` unless existing topics have the settings' number of queues."""
    existing = existing_topics(admin_client(settings))
    _check_queues(Names(settings.topic_prefix), settings, existing)


def _check_queues(names: Names, settings: Settings, existing: dict[str, ExistingTopic]) -> None:
    """Refuse partition counts that differ: a queue is the same partition of both topics."""
    counts = {
        name: existing[name].partitions for name in (names.half, names.op) if name in existing
    }
    if len(set(counts.values())) == 2:
        few, many = sorted(counts, key=lambda name: counts[name])
        raise TopicSettingsError(
            f"topic {few} has {counts[few]} partitions and topic {many} has {counts[many]}; both "
            "need the same number",
            remedy="put it right, if no resolver ran on them yet, with: kafka-topics.sh "
            f"--bootstrap-server {settings.bootstrap_servers} --alter --topic {few} --partitions "
            f"{counts[many]}; else choose another topic_prefix",
        )
    for name, count in counts.items():
        if count != settings.queues:
            raise TopicSettingsError(
                f"topic {name} has {count} partitions and queues is {settings.queues}; the number "
                "is fixed once topics are made",
                remedy=f"set queues={count}, or choose another topic_prefix",
            )
