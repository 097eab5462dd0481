"""Rights of this login: those that a role needs, beside those that Kafka says it has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ClusterMetadata,
    ConsumerGroupDescription,
    ResourceType,
)

from ..kafka.rights import Principals, Right, rights
from ..protocol.patterns import ANY
from ..settings import Settings
from .consumer_groups import described_groups
from .finding import Finding, error, ok

_TIMEOUT_SECONDS = 30.0
_ME = "User:doctor"
ROLES = ("resolver", "land", "operator", "auditor")
#: Operations that another one includes.
_INCLUDED_IN = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}

Operations = dict[str, set[AclOperation]]


@dataclass
class _Granted:
    """The operations that this login may do, by name; names that Kafka hides are not there."""

    topics: Operations = field(default_factory=dict)
    groups: Operations = field(default_factory=dict)


def access(
    admin: AdminClient, cluster: ClusterMetadata, settings: Settings, roles: Collection[str]
) -> Iterator[Finding]:
    """Yield the rights that this login lacks to play the roles."""
    needed = {role: rights(settings, Principals(**{role: _ME})) for role in roles}
    wanted = [right for of_role in needed.values() for right in of_role if right.principal == _ME]
    granted = _granted(admin, cluster, wanted)
    for role, of_role in needed.items():
        mine = [right for right in of_role if right.principal == _ME]
        missing = [right for right in mine if not _has(right, granted)]
        for right in missing:
            may, kind = (
                word.name.lower().replace("_", " ") for word in (right.operation, right.kind)
            )
            yield error(
                f"rights of {role}",
                f"this login may not {may} {kind} {right.pattern}",
                f"txresolver topics create --acls --{role}-principal User:NAME",
            )
        if not missing:
            yield ok(f"rights of {role}", "this login has all that Kafka tells of")


def _granted(admin: AdminClient, cluster: ClusterMetadata, wanted: list[Right]) -> _Granted:
    granted = _Granted()
    names = {
        name
        for right in wanted
        if right.kind is ResourceType.TOPIC
        for name in _names(right.pattern, cluster.topics)
    }
    described = admin.describe_topics(
        TopicCollection(sorted(names)),
        include_authorized_operations=True,
        request_timeout=_TIMEOUT_SECONDS,
    )
    for name, future in described.items():
        try:
            granted.topics[name] = set(future.result(2 * _TIMEOUT_SECONDS).authorized_operations)
        except KafkaException:
            granted.topics[name] = set()
    groups = sorted({right.pattern for right in wanted if right.kind is ResourceType.GROUP})
    for name, group in described_groups(admin, groups):
        granted.groups[name] = _operations(group)
    return granted


def _operations(group: ConsumerGroupDescription | None) -> set[AclOperation]:
    return (
        set()
        if group is None
        else {AclOperation(operation) for operation in group.authorized_operations or ()}
    )


def _names(pattern: str, known: Collection[str]) -> list[str]:
    """Return the topics that a pattern means: a literal name even where Kafka hides the topic."""
    if not pattern.endswith(ANY):
        return [pattern]
    return [name for name in known if name.startswith(pattern.removesuffix(ANY))]


def _has(right: Right, granted: _Granted) -> bool:
    """Whether a right is there; true where Kafka does not tell, as of transactional ids."""
    if right.kind is ResourceType.TOPIC:
        places = _names(right.pattern, granted.topics)
        return all(_may(right.operation, granted.topics.get(name, set())) for name in places)
    if right.kind is ResourceType.GROUP:
        return _may(right.operation, granted.groups[right.pattern])
    return True


def _may(operation: AclOperation, operations: set[AclOperation]) -> bool:
    return operation in operations or bool(_INCLUDED_IN.get(operation, set()) & operations)
