"""The Kafka cluster: brokers and their settings, the protocol's topics, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    TopicMetadata,
)

from ..kafka.topic_admin import describe_topics
from ..kafka.topic_specs import TopicSpec, broken, output_topics, queue_topics
from ..protocol import Names
from ..settings import Settings
from .finding import Finding, error, ok, warning

_TIMEOUT_SECONDS = 30.0
_MAKE = "make it with `txresolver topics create`, or grant this login Describe on it"


def brokers(admin: AdminClient, cluster: ClusterMetadata, settings: Settings) -> Iterator[Finding]:
    """Yield what brokers there are, and their settings that the resolver relies on."""
    names = ", ".join(
        f"{broker.id} at {broker.host}:{broker.port}" for broker in cluster.brokers.values()
    )
    yield ok("connection", f"{settings.bootstrap_servers} answers; brokers: {names}")
    for number in cluster.brokers:
        yield from _broker(number, settings_of(admin, number), settings)


def settings_of(admin: AdminClient, number: int) -> dict[str, str]:
    """Return the settings of a broker."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(number))
    [future] = admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS).values()
    config = future.result(2 * _TIMEOUT_SECONDS)
    return {name: entry.value or "" for name, entry in config.items()}


def _broker(number: int, config: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    about, ours = f"broker {number}", settings.kafka_transaction_timeout_ms
    longest = int(config.get("transaction.max.timeout.ms", ours))
    if longest < ours:
        yield error(
            about,
            f"transaction.max.timeout.ms is {longest}, below kafka_transaction_timeout_ms ({ours})",
            f"set kafka_transaction_timeout_ms to {longest} or less, or raise the broker's",
        )
    if config.get("transaction.partition.verification.enable", "true") != "true":
        yield error(
            about,
            "transaction.partition.verification.enable is false",
            "set it to true: otherwise a late request may tear a batch",
        )
    minutes = int(config.get("offsets.retention.minutes", 10_080))
    seen = f"the marker is kept for offsets.retention.minutes={minutes} without a resolver"
    if minutes < 1_440:
        yield warning(about, seen, "raise it to 10080: after it only --rebuild starts")
    else:
        yield ok(about, seen)


def topics(admin: AdminClient, cluster: ClusterMetadata, settings: Settings) -> Iterator[Finding]:
    """Yield the protocol's topics that are missing, or whose settings break the protocol."""
    queues = queue_topics(settings)
    missing = [spec.name for spec in queues if spec.name not in cluster.topics]
    for name in missing:
        yield error(f"topic {name}", "it is not there", _MAKE)
    if missing:
        return
    configs = describe_topics(admin, [spec.name for spec in queues])
    half, op = (configs[spec.name] for spec in queues)
    outputs = output_topics(settings, groups_met(cluster, settings), half, op)
    there = [spec for spec in outputs if spec.name in cluster.topics]
    configs |= describe_topics(admin, [spec.name for spec in there]) if there else {}
    for spec in outputs:
        if spec.name not in cluster.topics:
            yield error(f"topic {spec.name}", "it is not there", _MAKE)
    for spec in (*queues, *there):
        yield from _topic(spec, configs[spec.name], cluster.topics[spec.name], settings)


def _topic(
    spec: TopicSpec, config: Mapping[str, str], topic: TopicMetadata, settings: Settings
) -> Iterator[Finding]:
    about, all_partitions = f"topic {spec.name}", topic.partitions.values()
    replicas = min(len(partition.replicas) for partition in all_partitions)
    faults = list(broken(spec, config, replicas))
    for rule, value in faults:
        yield error(
            about,
            f"{rule.setting}={value}; the protocol needs {rule.needed} ({rule.why})",
            f"kafka-configs.sh --bootstrap-server {settings.bootstrap_servers} --alter "
            f"--entity-type topics --entity-name {spec.name} "
            f"--add-config {rule.setting}={rule.fix}",
        )
    names = Names(settings.topic_prefix)
    if spec.name in (names.half, names.op) and len(all_partitions) != settings.queues:
        yield error(
            about,
            f"it has {len(all_partitions)} partitions, and queues is {settings.queues}",
            f"set queues={len(all_partitions)}: the number is fixed once topics are made",
        )
    elif not faults:
        yield ok(
            about, f"{len(all_partitions)} partitions, {replicas} replicas, settings as needed"
        )
    if replicas < settings.replication_factor:
        yield warning(
            about,
            f"{replicas} replicas, and replication_factor is {settings.replication_factor}",
            "add replicas with kafka-reassign-partitions.sh",
        )


def partitions(cluster: ClusterMetadata, settings: Settings) -> Iterator[Finding]:
    """Yield partitions of all visible topics that take no records, or have too few replicas."""
    unled, behind = [], []
    for name, topic in cluster.topics.items():
        for number, partition in topic.partitions.items():
            if partition.leader < 0:
                unled.append(f"{name}:{number}")
            elif len(partition.isrs) < len(partition.replicas):
                behind.append(f"{name}:{number}")
    if unled:
        yield error(
            "partitions",
            f"without a leader: {some(unled)}",
            "start the brokers that have them; what concerns other partitions goes on",
        )
    if behind:
        yield warning(
            "partitions",
            f"with replicas that are not in sync: {some(behind)}",
            "look whether a broker is down or slow",
        )
    if not unled and not behind:
        yield ok("partitions", "each has a leader, and all replicas are in sync")


def groups_met(cluster: ClusterMetadata, settings: Settings) -> list[str]:
    """Return the groups that have a check topic."""
    names = Names(settings.topic_prefix)
    groups = (names.checked_group(name) for name in cluster.topics)
    return sorted(group for group in groups if group is not None)


def some(names: list[str]) -> str:
    """Return the first ten names, and how many more there are."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(sorted(names)[:10]) + more
