"""The groups that are asked: does anybody answer?"""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    OffsetSpec,
)

from ..protocol import Names
from ..settings import Settings
from .cluster import groups_met
from .consumer_groups import described_groups
from .finding import Finding, ok, warning

_TIMEOUT_SECONDS = 30.0
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]


def agents(admin: AdminClient, cluster: ClusterMetadata, settings: Settings) -> Iterator[Finding]:
    """Yield for each group how many members answer its checks, and how many checks wait."""
    groups = groups_met(cluster, settings)
    if not groups:
        return
    for group, described in described_groups(admin, groups):
        if described is None:
            remedy = "grant this login Describe on the group"
            yield warning(f"group {group}", "this login may not look at it", remedy)
            continue
        members = len(described.members)
        topic = Names(settings.topic_prefix).check(group)
        waiting = _waiting(admin, group, topic, len(cluster.topics[topic].partitions))
        yield _finding(group, members, waiting)


def _waiting(admin: AdminClient, group: str, topic: str, count: int) -> int:
    """Return the number of checks that the group has not read. By offsets: a few too many."""
    partitions = [TopicPartition(topic, number) for number in range(count)]
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])
    committed = asked[group].result(2 * _TIMEOUT_SECONDS).topic_partitions
    ends = admin.list_offsets(dict.fromkeys(partitions, _LATEST), request_timeout=_TIMEOUT_SECONDS)
    begins = admin.list_offsets(
        dict.fromkeys(partitions, _EARLIEST), request_timeout=_TIMEOUT_SECONDS
    )
    read = {
        partition.partition: partition.offset for partition in committed if partition.offset >= 0
    }
    return sum(
        ends[partition].result(2 * _TIMEOUT_SECONDS).offset
        - read.get(partition.partition, begins[partition].result(2 * _TIMEOUT_SECONDS).offset)
        for partition in partitions
    )


def _finding(group: str, members: int, waiting: int) -> Finding:
    about = f"group {group}"
    if members:
        return ok(about, f"{members} members answer its checks; {waiting:,} wait")
    remedy = (
        f"start one of its producers, or `txresolver agent --group {group} --listener MODULE:NAME`"
    )
    if waiting:
        return warning(about, f"nobody answers its checks, and {waiting:,} wait", remedy)
    return warning(about, "nobody would answer its checks; none waits now", remedy)
