"""Make the protocol's topics, or verify those that are there.

Settings that the protocol can't live with are refused, with the command that puts them right;
others are left as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka.admin import AdminClient

from .errors import TopicSettingsError
from .groups import check_apart, check_group
from .kafka import admin_client
from .protocol.names import Names
from .settings import Settings
from .topic_admin import Found, await_topics, create_topics, describe_topics, existing_topics
from .topic_specs import TopicSpec, broken, output_topics, queue_topics

__all__ = ["Topic", "ensure_topics"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is as the protocol needs it; `note` says what differs and was left."""

    name: str
    action: Literal["created", "verified"]
    partitions: int
    replication_factor: int
    note: str = ""


def ensure_topics(
    admin: AdminClient, settings: Settings, groups: Iterable[str] = (), create: bool = True
) -> list[Topic]:
    """Make the missing topics and verify the others, check topics that are there included.

    Returns when the cluster's metadata show all of them, with leaders; a check topic that was there
    and lacks one is warned of. Raises `TopicSettingsError`, before anything was made where an
    existing half or op topic is at fault; with `create=False` also for a missing topic.
    """
    names = Names(settings.topic_prefix)
    existing = existing_topics(admin)
    _check_queues(names, settings, existing)
    asked = set(groups)
    for group in asked:
        check_group(group, names.prefix)
    met = [of for name in existing if (of := names.checked_group(name)) is not None]
    check_apart(asked, [*met, *settings.groups])
    ensure = _Ensure(admin, settings, create, existing)
    queues = queue_topics(settings)
    done = ensure(queues)
    _check_queues(names, settings, ensure.found)  # somebody else may have made them meanwhile
    half, op = (ensure.configs[spec.name] for spec in queues)
    return done + ensure(output_topics(settings, sorted(asked.union(met)), half, op))


class _Ensure:
    """Ensures some topics; remembers what it found."""

    def __init__(
        self, admin: AdminClient, settings: Settings, create: bool, existing: dict[str, Found]
    ) -> None:
        self._admin = admin
        self._settings = settings
        self._create = create
        self._existing = existing
        names = Names(settings.topic_prefix)
        #: What is wrong with one of these is its group's matter, and shall stop no other.
        self._may_be_unled = {name for name in existing if names.checked_group(name) is not None}
        self.found: dict[str, Found] = {}
        self.configs: dict[str, dict[str, str]] = {}

    def __call__(self, specs: Sequence[TopicSpec]) -> list[Topic]:
        made = self._make([spec for spec in specs if spec.name not in self._existing])
        names = [spec.name for spec in specs]
        self.found |= await_topics(self._admin, names, self._may_be_unled)
        self.configs |= describe_topics(self._admin, names)
        return [self._verified(spec, spec.name in made) for spec in specs]

    def _make(self, missing: list[TopicSpec]) -> set[str]:
        if missing and not self._create:
            names = ", ".join(spec.name for spec in missing)
            raise TopicSettingsError(
                f"missing topics: {names}; make them with `txresolver topics create`"
            )
        return create_topics(self._admin, missing, self._settings.replication_factor)

    def _verified(self, spec: TopicSpec, made: bool) -> Topic:
        found = self.found[spec.name]
        servers = self._settings.bootstrap_servers
        for rule, value in broken(spec, self.configs[spec.name], found.replicas):
            raise TopicSettingsError(
                f"topic {spec.name} has {rule.setting}={value}; the protocol needs {rule.needed} "
                f"({rule.why}). Put it right with: kafka-configs.sh --bootstrap-server {servers} "
                f"--alter --entity-type topics --entity-name {spec.name} "
                f"--add-config {rule.setting}={rule.fix}"
            )
        return Topic(
            spec.name,
            "created" if made else "verified",
            found.partitions,
            found.replicas,
            self._note(spec.name, found),
        )

    def _note(self, name: str, found: Found) -> str:
        wanted = self._settings.replication_factor
        few = f"replication_factor is set to {wanted}" if found.replicas < wanted else ""
        unled = "" if found.led else "a partition has no leader"
        if unled:
            logger.warning("topic %s: %s; a check that goes there waits for one", name, unled)
        return "; ".join(filter(None, (few, unled)))


def verify_queues(settings: Settings) -> None:
    """See that there are as many queues as there were; raises `TopicSettingsError`."""
    existing = existing_topics(admin_client(settings))
    _check_queues(Names(settings.topic_prefix), settings, existing)


def _check_queues(names: Names, settings: Settings, existing: dict[str, Found]) -> None:
    """Refuse partition counts that differ: a queue is the same partition of both topics."""
    counts = {
        name: existing[name].partitions for name in (names.half, names.op) if name in existing
    }
    if len(set(counts.values())) == 2:
        few, many = sorted(counts, key=lambda name: counts[name])
        raise TopicSettingsError(
            f"topic {few} has {counts[few]} partitions and topic {many} has {counts[many]}; both "
            "need the same number. Put it right, if no resolver ran on them yet, with: "
            f"kafka-topics.sh --bootstrap-server {settings.bootstrap_servers} --alter "
            f"--topic {few} --partitions {counts[many]}; else choose another topic_prefix"
        )
    for name, count in counts.items():
        if count != settings.queues:
            raise TopicSettingsError(
                f"topic {name} has {count} partitions and queues is {settings.queues}; the number "
                f"is fixed once topics are made. Set queues={count}, or choose another topic_prefix"
            )
