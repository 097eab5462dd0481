"""Shows that Kafka may give aborted records to a `read_committed` consumer: a fault of Kafka's.

    python -m tests.faults.aborted

A replica that was away copies several transactions in one append. In the index of its aborted
transactions it then notes for each where the next open transaction began, and overlooks those of
the same producer (Kafka's ProducerStateManager.lastStableOffset). A fetch that ends before that
offset gets the first aborted transaction only (TransactionIndex.collectAbortedTxns), so the
consumer takes the others for committed. The replica that led all the time answers correctly.
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


def _write(producer: Producer, what: str, count: int = 1, *, commit: bool) -> None:
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(_TOPIC, _BODY, what.encode(), partition=0)
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
    found: Counter[str] = Counter()
    consumer = Consumer(config)
    consumer.assign([TopicPartition(_TOPIC, 0, 0)])
    while (message := consumer.poll(_SECONDS)) is not None and message.error() is None:
        found[(message.key() or b"").decode()] += 1
    consumer.close()
    return dict(found)


def _await_leader(cluster: Cluster, besides: int) -> int:
    until = time.monotonic() + _SECONDS
    while (leader := cluster.leader(_TOPIC, 0, besides)) in (besides, -1):
        if time.monotonic() > until:
            raise TimeoutError(f"no leader besides node {besides} within {_SECONDS:.0f} s")
        time.sleep(0.5)
    return leader


def main() -> None:
    """Print what is read from the leader of before, and from the replica that was away."""
    with TemporaryDirectory() as home, Cluster(Path(home)) as cluster:
        cluster.make_topic(_TOPIC, 1, 2, 3)
        cluster.await_whole()
        cluster.nodes[2].kill()
        _await_leader(cluster, besides=2)
        first, second = _producer(cluster, "first"), _producer(cluster, "second")
        _write(first, "aborted 1", commit=False)
        _write(first, "aborted 2", commit=False)
        _write(first, "committed", 60, commit=True)
        _write(second, "of another producer", commit=True)
        print("the leader of before:", _read(cluster, _SMALL))
        cluster.nodes[2].launch()
        cluster.await_whole()
        cluster.nodes[1].kill()
        leader = _await_leader(cluster, besides=1)
        print(f"node {leader}, {_SMALL} bytes a fetch:", _read(cluster, _SMALL))
        print(f"node {leader}, {WHOLE_BYTES} bytes a fetch:", _read(cluster, WHOLE_BYTES))


if __name__ == "__main__":
    main()
