"""The three brokers of a campaign: what is done to a node happens, and Kafka gets over it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from resolver.audit.topics import readable, records
from resolver.kafka.end_offsets import EndOffsets
from resolver.kafka.partition_offsets import all_offsets
from resolver.protocol import Names
from resolver.resolve.reader import Range, RangeReader
from resolver.resolve.rebuild import _records
from resolver.settings import Settings
from tests.faults.aborted import make_misleading, mislead
from tests.faults.cluster import Cluster, offsets_of, transactions_of
from tests.faults.node import Node
from tests.faults.power import lose_power, preloaded
from tests.support.leftovers import processes_in
from tests.support.patience import wait_until
from tests.support.reading import end_offsets

TOPIC, ALONE, MISLEADING = "copied", "alone", "misleading"
COUNT = 500
#: Bytes of a fetch, by Kafka's default.
IN_PARTS = 1_048_576
_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    with Cluster(home, links=True, preload=preloaded) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(_SECONDS)
        wait_until(lambda: cluster.knows([TOPIC]))
        yield cluster
    wait_until(lambda: processes_in(home) == [])  # a killed JVM takes a moment to end


def test_a_leader_without_power_loses_what_it_had_not_synced_and_the_others_lose_nothing(
    cluster: Cluster,
) -> None:
    cluster.await_whole()
    node = leader(cluster)
    send(cluster, COUNT)
    assert node.kill() == "exit code 137"
    cuts = lose_power(node.home, random.Random(1))  # noqa: S311
    assert [cut for cut in cuts if cut.log.parent.name == f"{TOPIC}-0"]
    wait_until(lambda: cluster.leader(TOPIC, 0, besides=node.number) != node.number)
    send(cluster, 1)
    node.launch()
    cluster.await_whole()
    assert end_of(cluster) == COUNT + 1


def test_a_topic_of_one_node_has_no_leader_while_that_is_halted(cluster: Cluster) -> None:
    cluster.await_whole()
    cluster.make_topic(ALONE, 3)
    wait_until(lambda: cluster.leader(ALONE, 0) == 3)
    cluster.nodes[3].halt()
    wait_until(lambda: cluster.nodes[3].is_halted)
    wait_until(lambda: cluster.leader(ALONE, 0, besides=3) == -1)
    end = end_of(cluster)
    send(cluster, 1)
    assert end_of(cluster) == end + 1
    cluster.nodes[3].go_on()
    wait_until(lambda: cluster.leader(ALONE, 0) == 3)


def test_a_coordinator_is_the_leader_of_its_partition(cluster: Cluster) -> None:
    cluster.await_whole()
    commit_offset(cluster, group="a group", transactional_id="an id")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    said = admin.describe_consumer_groups(["a group"])["a group"].result(_SECONDS).coordinator.id
    assert cluster.leader(*offsets_of("a group")) == said
    assert cluster.leader(*transactions_of("an id")) in cluster.nodes


def test_a_rebuild_and_an_audit_read_no_aborted_record(
    cluster: Cluster, spark: SparkSession
) -> None:
    """A fetch of a part of the partition shows Kafka's fault."""
    cluster.await_whole()
    make_misleading(cluster, MISLEADING)
    mislead(cluster, MISLEADING)
    settings = Settings(bootstrap_servers=cluster.bootstrap)
    in_parts = {**settings.spark, "kafka.max.partition.fetch.bytes": str(IN_PARTS)}
    for read in (of_an_audit, of_a_rebuild):
        assert aborted(read(spark, replace(settings, spark=in_parts))) == 1
        assert aborted(read(spark, settings)) == 0
    cluster.nodes[1].launch()


def test_planning_and_reading_leave_a_leader_that_was_cut_off(cluster: Cluster) -> None:
    """It still answers, and knows no new records; a client that asks only it stays with it."""
    assert cluster.links is not None
    cluster.await_whole()
    settings = Settings(bootstrap_servers=cluster.bootstrap, queues=1, topic_prefix="cut.")
    names = Names(settings.topic_prefix)
    for topic in (names.half, names.op):
        cluster.make_topic(topic, *cluster.nodes)
    wait_until(lambda: cluster.knows([names.half, names.op]))
    begin = all_offsets(settings, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    send(cluster, 1, names.half)
    ends = EndOffsets(settings)
    wait_until(lambda: ends.after(begin)[names.half]["0"] == 1)
    with closing(RangeReader(settings)) as records:
        halves, _ = records.read(0, Range(0, 1), Range(0, 0))
        cut_off = wait_until(lambda: max(cluster.leader(names.half, 0), 0))
        cluster.links.cut(cut_off)
        try:
            send(cluster, 2, names.half)
            wait_until(lambda: ends.after(begin)[names.half]["0"] == 3)
            halves += records.read(0, Range(2, 3), Range(0, 0))[0]
        finally:
            cluster.links.heal(cut_off)
    assert [half.offset for half in halves] == [0, 2]


def of_an_audit(spark: SparkSession, settings: Settings) -> DataFrame:
    return records(spark, settings, readable(settings, [MISLEADING]))


def of_a_rebuild(spark: SparkSession, settings: Settings) -> DataFrame:
    end = end_offsets({"bootstrap.servers": settings.bootstrap_servers}, MISLEADING)[0]
    return _records(spark, settings, MISLEADING, {MISLEADING: {"0": end}})


def aborted(read: DataFrame) -> int:
    return read.where(F.col("key").cast("string").startswith("aborted")).count()


def leader(cluster: Cluster) -> Node:
    return cluster.nodes[cluster.leader(TOPIC, 0)]


def send(cluster: Cluster, count: int, topic: str = TOPIC) -> None:
    """Send records that two nodes acknowledge each of."""
    # A leader that is cut off acknowledges nothing: by default that is noticed after a minute.
    leaders = {"socket.timeout.ms": 10_000, "topic.metadata.refresh.interval.ms": 2_000}
    config = {"bootstrap.servers": cluster.bootstrap, **leaders}
    producer, refused = Producer({**config, "enable.idempotence": True}), []

    def report(error: object, _message: object) -> None:
        refused.extend([error] if error else [])

    for _ in range(count):
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=report)
    assert producer.flush(2 * _SECONDS) == 0 and not refused


def end_of(cluster: Cluster) -> int:
    return end_offsets({"bootstrap.servers": cluster.bootstrap}, TOPIC, [0])[0]


def commit_offset(cluster: Cluster, group: str, transactional_id: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    position = [TopicPartition(TOPIC, 0, 1)]
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), _SECONDS)
    producer.commit_transaction(_SECONDS)
    consumer.close()
