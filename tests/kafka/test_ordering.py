"""Messages of one key share a queue, and their ends stand there in the order of the commits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Lock

import pytest

from resolver import Message, Transaction, TransactionProducer
from resolver.broker import Broker
from tests.faults.partitioner import java_partition
from tests.support.patience import SEND_TIMEOUT_MS

from .protocol_topics import ProtocolTopics

QUEUES = 3
KEYS = [b"customer-%d" % number for number in range(20)]


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix, QUEUES)
    made.make()
    return made


def producer_of(topics: ProtocolTopics, op_max_bytes: int = 4096) -> TransactionProducer:
    return TransactionProducer(
        "orders",
        topics.bootstrap,
        checks_elsewhere=True,
        topic_prefix=topics.names.prefix,
        op_max_bytes=op_max_bytes,
        send_timeout_ms=SEND_TIMEOUT_MS,
    )


def of(key: bytes | None, ordering_key: bytes | None = None) -> Message:
    return Message("orders.placed", b"body", key, ordering_key=ordering_key)


def ends_in_order(topics: ProtocolTopics) -> dict[int, list[str]]:
    """Return the transaction ids of each queue, as its ops name them."""
    ends: dict[int, list[str]] = {}
    for queue, op in topics.ops():
        ends.setdefault(queue, []).extend(element.transaction_id for element in op.elements)
    return ends


def by_queue(committed: Iterable[Transaction]) -> dict[int, list[str]]:
    ids: dict[int, list[str]] = {}
    for tx in committed:
        ids.setdefault(tx.queue, []).append(tx.transaction_id)
    return ids


def test_the_key_chooses_the_queue_and_an_ordering_key_goes_before_it(
    topics: ProtocolTopics,
) -> None:
    keys = [*KEYS, b"", b"\x00\xff"]
    with producer_of(topics) as producer:
        by_key = [producer.begin(of(key)).queue for key in keys]
        ordered = [producer.begin(of(key, b"all")).queue for key in [*keys, None]]
        by_ordering_key = [producer.begin(of(None, key)).queue for key in keys]
    expected = [java_partition(key, QUEUES) for key in keys]
    assert by_key == by_ordering_key == expected
    assert set(expected) == set(range(QUEUES))
    assert set(ordered) == {java_partition(b"all", QUEUES)}


def test_messages_without_a_key_share_a_queue_for_a_while_and_use_all(
    topics: ProtocolTopics,
) -> None:
    with producer_of(topics) as producer:
        queues = [tx.queue for tx in producer.begin_all(of(None) for _ in range(32 * QUEUES))]
    changes = sum(before != after for before, after in pairwise(queues))
    assert set(Counter(queues).values()) == {32}
    assert changes == QUEUES - 1


@pytest.mark.gate
def test_the_order_of_commits_is_the_order_of_ends(topics: ProtocolTopics) -> None:
    """Whatever the order of the halves; over full and lingering ops; of one call and of many."""
    committed: list[Transaction] = []
    with producer_of(topics, op_max_bytes=200) as producer:
        begun = producer.begin_all(of(random.choice(KEYS)) for _ in range(600))  # noqa: S311
        random.shuffle(begun)
        for tx in begun:
            tx.commit()
            committed.append(tx)
        with producer.transactions([of(random.choice(KEYS)) for _ in range(300)]) as together:  # noqa: S311
            committed += together
    assert ends_in_order(topics) == by_queue(committed)


def test_threads_keep_the_order_of_each_key(topics: ProtocolTopics) -> None:
    """Threads take turns with a key: each commits when the thread before it has done so."""
    turns = {key: Lock() for key in KEYS}
    of_key: dict[bytes, list[str]] = {key: [] for key in KEYS}

    def commit(key: bytes) -> None:
        tx = producer.begin(of(key))
        with turns[key]:
            tx.commit()
            of_key[key].append(tx.transaction_id)

    with producer_of(topics, op_max_bytes=300) as producer, ThreadPoolExecutor(8) as threads:
        list(threads.map(commit, KEYS * 40))
    ends = ends_in_order(topics)
    for key, ids in of_key.items():
        mine = set(ids)
        assert [one for one in ends[java_partition(key, QUEUES)] if one in mine] == ids
