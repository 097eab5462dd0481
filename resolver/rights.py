"""The rights in Kafka that each role needs, and no more: the table in docs/protocol.md, section 9.

A name that ends in `*` means all that begin like this; Kafka calls it a prefixed pattern.
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

from .errors import SettingsError
from .patterns import ANY, may_begin
from .protocol import Names
from .settings import Settings
from .settings.groups import legal_principal

_ANY_HOST = "*"
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP


class Right(NamedTuple):
    """What a principal may do, from any host; `pattern` is of names of this kind."""

    principal: str
    operation: AclOperation
    kind: ResourceType
    pattern: str

    def binding(self) -> AclBinding:
        """Return it as Kafka has it."""
        # `*` alone is Kafka's own word for all of them.
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
    """Who plays a role, as Kafka knows them; groups have theirs in the settings.

    `land` is the resolver unless given: `txresolver up` is both.
    """

    resolver: str | None = None
    land: str | None = None
    operator: str | None = None
    auditor: str | None = None

    def __post_init__(self) -> None:
        for role, principal in vars(self).items():
            if principal is not None and not legal_principal(principal):
                raise SettingsError(
                    f"--{role}-principal is {principal!r}; give it as Kafka's ACLs have it, such "
                    f"as User:{role}, and not everybody"
                )


def rights(settings: Settings, principals: Principals) -> list[Right]:
    """Return the rights of all whose principal is known, each once; Write includes Describe.

    Raises `SettingsError` where the topics of a group have the protocol's own among them.
    """
    names = Names(settings.topic_prefix)
    granted: list[Right] = []
    for name, group in settings.groups.items():
        if group.principal:
            granted += _group(group.principal, name, names)
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
    # So that they know how large a record may be.
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, names.half, names.op)
    yield from _may(principal, AclOperation.READ, _TOPIC, names.check(group))
    yield from _may(principal, AclOperation.READ, _GROUP, group)


def _resolver(principal: str, names: Names, real: list[str], settings: Settings) -> Iterator[Right]:
    checks = names.check(ANY)
    inputs = (names.half, names.op, names.marker)
    outputs = (names.resolution, names.discarded, names.quarantine, checks, *real)
    # Outcomes are what a rebuild begins with.
    yield from _may(principal, AclOperation.READ, _TOPIC, *inputs, names.resolution)
    # A fence is written to the op topic.
    yield from _may(principal, AclOperation.WRITE, _TOPIC, names.op, *outputs)
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, *inputs, *outputs)
    if settings.create_check_topics:
        yield from _may(principal, AclOperation.CREATE, _TOPIC, checks)
    yield from _may(principal, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, names.resolver)
    yield from _may(principal, AclOperation.READ, _GROUP, names.resolver)
    yield from _may(principal, AclOperation.DESCRIBE, _GROUP, names.reader)


def _land(principal: str, names: Names) -> Iterator[Right]:
    outputs = (names.resolution, names.discarded, names.quarantine, names.check(ANY))
    yield from _may(principal, AclOperation.READ, _TOPIC, names.half, names.op, *outputs)
    yield from _may(principal, AclOperation.DESCRIBE, _GROUP, names.reader)


def _operator(principal: str, names: Names) -> Iterator[Right]:
    """Return the rights to look at what was given up or refused, bring it back, end by hand."""
    looks_at = (names.resolution, names.discarded, names.quarantine)
    yield from _may(principal, AclOperation.READ, _TOPIC, *looks_at)
    yield from _may(principal, AclOperation.WRITE, _TOPIC, names.half, names.op)
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, names.half, names.op)
    yield from _may(principal, AclOperation.DESCRIBE, _GROUP, names.reader)


def _auditor(principal: str, names: Names, real: list[str]) -> Iterator[Right]:
    """Return the rights to compare the tables with what Kafka has: `audit --topics`."""
    outcomes = (names.resolution, names.discarded, names.quarantine)
    yield from _may(principal, AclOperation.READ, _TOPIC, *outcomes, *real)
    # How many there are.
    yield from _may(principal, AclOperation.DESCRIBE, _TOPIC, names.half, names.op)
    # Whether Kafka keeps all of a topic's records.
    yield from _may(principal, AclOperation.DESCRIBE_CONFIGS, _TOPIC, *real)


def _may(
    principal: str, operation: AclOperation, kind: ResourceType, *patterns: str
) -> Iterator[Right]:
    return (Right(principal, operation, kind, pattern) for pattern in patterns)


def _real_topics(settings: Settings) -> list[str]:
    """Return the topics that groups may publish to; of those without a limit nothing is known."""
    patterns = []
    for name, group in settings.groups.items():
        for pattern in group.topics or ():
            if may_begin(pattern, settings.topic_prefix):
                raise SettingsError(
                    f"topics of [groups.{name}] has {pattern!r}, and so topics of the resolver's "
                    f"own, {settings.topic_prefix}*: it would be granted to write to all of them. "
                    "Say more closely which topics are meant"
                )
            patterns.append(pattern)
    return patterns
