"""Shows that Kafka may give aborted records to a `read_committed` consumer: a fault of Kafka's.

    python -m tests.faults.aborted

A replica that was away copies several transactions in one append. For each aborted one it notes in
its index where the next open transaction began. It overlooks transactions of the same producer
(Kafka's ProducerStateManager.lastStableOffset). A fetch that ends before that offset gets the first
aborted transaction only (TransactionIndex.collectAbortedTxns), so the consumer takes the others for
committed. The replica that led all the time answers correctly.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer, TopicPartition

from resolver.kafka.clients import WHOLE_BYTES

from .cluster import Cluster

_TOPIC = "shown"
_SECONDS = 60.0
_BODY = b"x" * 10_000
#: Bytes of a fetch: less than a replica copies at once.
_SMALL = 100_000


def _producer(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(_SECONDS)
    return producer


def _write(producer: Producer, topic: str, what: str, count: int = 1, *, commit: bool) -> None:
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, _BODY, what.encode(), partition=0)
    producer.flush(_SECONDS)
    end = producer.commit_transaction if commit else producer.abort_transaction
    end(_SECONDS)


def _read(cluster: Cluster, fetch_bytes: int) -> dict[str, int]:
    """Return how many records a `read_committed` consumer gets, by their key."""
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "shown",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.message.max.bytes": fetch_bytes,
    }
    counts: Counter[str] = Counter()
    consumer = Consumer(config)
    consumer.assign([TopicPartition(_TOPIC, 0, 0)])
    while (message := consumer.poll(_SECONDS)) is not None and message.error() is None:
        counts[(message.key() or b"").decode()] += 1
    consumer.close()
    return dict(counts)


def _await_leader(cluster: Cluster, topic: str, besides: int) -> int:
    until = time.monotonic() + _SECONDS
    while (leader := cluster.leader(topic, 0, besides)) in (besides, -1):
        if time.monotonic() > until:
            raise TimeoutError(f"no leader besides node {besides} within {_SECONDS:.0f} s")
        time.sleep(0.5)
    return leader


def make_misleading(cluster: Cluster, topic: str) -> None:
    """Make a topic of which node 2 has a wrong index of aborted transactions. Node 1 leads it.

    700 kB come before the 630 kB that node 2 copies at once. So a fetch of 1 MiB, as Spark's, ends
    between the second abort and the record of the other producer.
    """
    cluster.make_topic(topic, 1, 2, 3)
    cluster.await_whole()
    first, second = _producer(cluster, "first"), _producer(cluster, "second")
    _write(first, topic, "before", 70, commit=True)
    cluster.await_whole()
    cluster.nodes[2].kill()
    _await_leader(cluster, topic, besides=2)
    _write(first, topic, "aborted 1", commit=False)
    _write(first, topic, "aborted 2", commit=False)
    _write(first, topic, "committed", 60, commit=True)
    _write(second, topic, "of another producer", commit=True)
    cluster.nodes[2].launch()
    cluster.await_whole()


def mislead(cluster: Cluster, topic: str) -> int:
    """Kill node 1; return the number of the node that leads the topic now."""
    cluster.nodes[1].kill()
    return _await_leader(cluster, topic, besides=1)


def main() -> None:
    """Print what is read from the leader of before, and from the replica that was away."""
    with TemporaryDirectory() as home, Cluster(Path(home)) as cluster:
        make_misleading(cluster, _TOPIC)
        print("the leader of before:", _read(cluster, _SMALL))
        leader = mislead(cluster, _TOPIC)
        for fetch_bytes in (_SMALL, WHOLE_BYTES):
            print(f"node {leader}, {fetch_bytes} bytes a fetch:", _read(cluster, fetch_bytes))


if __name__ == "__main__":
    main()
