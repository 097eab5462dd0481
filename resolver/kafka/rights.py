"""The rights in Kafka that each role needs, and no more: the table in docs/protocol.md, section 9.

A name that ends in `*` means all names with this beginning; Kafka calls it a prefixed pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from ..errors import SettingsError
from ..protocol import Names
from ..protocol.patterns import ANY, may_begin
from ..settings import Settings
from ..settings.groups import legal_principal

_ANY_HOST = "*"
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP


class Right(NamedTuple):
    """A right of a principal, from any host; `pattern` is for names of this kind of resource."""

    principal: str
    operation: AclOperation
    kind: ResourceType
    pattern: str

    def binding(self) -> AclBinding:
        """Return the right as an ACL of Kafka."""
        # Keep `*` alone: it is Kafka's own name for all resources.
        is_prefix = self.pattern.endswith(ANY) and self.pattern != ANY
        return AclBinding(
            self.kind,
            self.pattern.removesuffix(ANY) if is_prefix else self.pattern,
            ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL,
            self.principal,
            _ANY_HOST,
            self.operation,
            AclPermissionType.ALLOW,
        )


@dataclass(frozen=True)
class Principals:
    """The Kafka principal of each role; principals of groups are in the settings.

    `land` is the resolver's unless given, since `txresolver up` plays both roles.
    """

    resolver: str | None = None
    land: str | None = None
    operator: str | None = None
    auditor: str | None = None

    def __post_init__(self) -> None:
        for role, principal in vars(self).items():
            if principal is not None and not legal_principal(principal):
                raise SettingsError(
                    f"--{role}-principal is {principal!r}",
                    remedy=f"give it as Kafka's ACLs have it, such as User:{role}, and not "
                    "everybody",
                )


def rights(settings: Settings, principals: Principals) -> list[Right]:
    """Return the rights of all known principals, each once; Write includes Describe.

    Raises `SettingsError` where the topics of a group include the protocol's own.
    """
    names = Names(settings.topic_prefix)
    granted: list[Right] = []
    for name, group in settings.groups.items():
        if group.principal:
            granted += _group(group.principal, name, names)
            granted += _real(group.principal, name, settings)
    if principals.resolver is not None:
        granted += _resolver(principals.resolver, names, _real_topics(settings), settings)
    land = principals.land or principals.resolver
    if land is not None:
        granted += _land(land, names)
    if principals.operator is not None:
        granted += _operator(principals.operator, names)
    if principals.auditor is not None:
        granted += _auditor(principals.auditor, names, _real_topics(settings))
    return list(dict.fromkeys(granted))


def _group(principal: str, group: str, names: Names) -> Iterator[Right]:
    """Return the rights of a group's producers and agents."""
    yield from _may(principal, AclOperation.WRITE, _TOPIC, names.half, names.op)
    # Let producers read topic settings: they must know how large a record may be.
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, names.half, names.op)
    yield from _may(principal, AclOperation.READ, _TOPIC, names.check(group), names.policy)
    yield from _may(principal, AclOperation.READ, _GROUP, group)


def _real(principal: str, group: str, settings: Settings) -> Iterator[Right]:
    """Return the rights by which a group's producers see what fits their real topics.

    Those of a fast group also deliver to these topics.
    """
    section = settings.groups[group]
    real = _topics_of(group if section.topics is not None else ANY, settings)
    # Write includes Describe.
    operation = AclOperation.WRITE if section.fast else AclOperation.DESCRIBE
    yield from _may(principal, operation, _TOPIC, *real)
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, *real)
    if section.fast:
        ids = Names(settings.topic_prefix).fast_id(group, ANY)
        yield from _may(principal, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, ids)


def _resolver(principal: str, names: Names, real: list[str], settings: Settings) -> Iterator[Right]:
    checks = names.check(ANY)
    inputs = (names.half, names.op, names.marker)
    outputs = (names.resolution, names.discarded, names.quarantine, names.parked, checks, *real)
    # Read the outputs too: a rebuild begins with outcomes, and all outputs are searched for the
    # records of a batch.
    yield from _may(principal, AclOperation.READ, _TOPIC, *inputs, *outputs)
    # Write fences to both topics of the queues, and publish the policy.
    written = (names.half, names.op, *outputs, names.policy)
    yield from _may(principal, AclOperation.WRITE, _TOPIC, *written)
    # The topic of claims is operators' own: the resolver sees that it is there, as it should be.
    yield from _may(principal, AclOperation.DESCRIBE, _TOPIC, names.operation)
    described = (*inputs, *outputs, names.policy, names.operation)
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, *described)
    if settings.create_check_topics:
        yield from _may(principal, AclOperation.CREATE, _TOPIC, checks)
    # Its own ids, one for each generation and one for a rebuild; and those of the groups'
    # producers, to revoke them.
    ids = (names.resolver + ANY, names.fast_ids + ANY)
    yield from _may(principal, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, *ids)
    yield from _may(principal, AclOperation.READ, _GROUP, names.resolver)
    yield from _may(principal, AclOperation.DESCRIBE, _GROUP, names.reader)


def _land(principal: str, names: Names) -> Iterator[Right]:
    outputs = (names.resolution, names.discarded, names.quarantine, names.parked, names.check(ANY))
    yield from _may(principal, AclOperation.READ, _TOPIC, names.half, names.op, *outputs)
    yield from _may(principal, AclOperation.DESCRIBE, _GROUP, names.reader)


def _operator(principal: str, names: Names) -> Iterator[Right]:
    """Return the rights to read discards and quarantine, to bring messages back, to end by hand."""
    looks_at = (names.resolution, names.discarded, names.quarantine, names.parked, names.operation)
    yield from _may(principal, AclOperation.READ, _TOPIC, *looks_at)
    yield from _may(principal, AclOperation.WRITE, _TOPIC, names.half, names.op, names.operation)
    # One transactional id for each operation: see `Names.operator_id`.
    ids = names.operator_id(ANY)
    yield from _may(principal, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, ids)
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, names.half, names.op)
    yield from _may(principal, AclOperation.DESCRIBE, _GROUP, names.reader)


def _auditor(principal: str, names: Names, real: list[str]) -> Iterator[Right]:
    """Return the rights to compare the tables with Kafka's topics: `audit --topics`."""
    outcomes = (names.resolution, names.discarded, names.quarantine, names.parked)
    yield from _may(principal, AclOperation.READ, _TOPIC, *outcomes, *real)
    # Describe the queues' topics, to know how many records there are.
    yield from _may(principal, AclOperation.DESCRIBE, _TOPIC, names.half, names.op)
    # Read settings, to know whether Kafka keeps all records of a topic.
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, *real)


def _may(
    principal: str, operation: AclOperation, kind: ResourceType, *patterns: str
) -> Iterator[Right]:
    return (Right(principal, operation, kind, pattern) for pattern in patterns)


def _real_topics(settings: Settings) -> list[str]:
    """Return the topics that groups may publish to; a group without a limit adds none."""
    return [topic for group in settings.groups for topic in _topics_of(group, settings)]


def _topics_of(group: str, settings: Settings) -> tuple[str, ...]:
    """Return the topics in a group's section; none without a section."""
    section = settings.groups.get(group)
    patterns = (section.topics if section is not None else None) or ()
    for pattern in patterns:
        if may_begin(pattern, settings.topic_prefix):
            raise SettingsError(
                f"topics of [groups.{group}] has {pattern!r}, and so topics of the resolver's "
                f"own, {settings.topic_prefix}*: it would be granted to write to all of them",
                remedy="say more closely which topics are meant",
            )
    return patterns
