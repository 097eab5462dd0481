"""Fast commits over a network that loses and delays requests, with ids that are revoked meanwhile.

No resolver runs. What it would make of the records follows from them.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from resolver import SendError, Transaction, TransactionProducer, TransactionStatus
from resolver.broker import Broker
from resolver.protocol import Half

from .fast_topics import FastTopics
from .kafka_proxy import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE, Fate, KafkaProxy

SECONDS = 25.0
THREADS = 6
#: Requests of the fast lane, of which one is disturbed.
ONE_OF = 12
FATES = [Fate.LOSE_REQUEST, Fate.LOSE_ANSWER, Fate.HOLD]


class Weather:
    """A proxy that disturbs the requests of fast clients, and no others."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self.is_bad = True
        self.counts: Counter[Fate] = Counter()
        self.proxy = KafkaProxy(broker.bootstrap, self._judge)

    def _judge(self, request: int, frame: bytes) -> Fate:
        # Near its beginning a request has the transactional id; a half has it further behind.
        is_fast = b".fast:" in frame[:100] and request in (
            PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN,
        )  # fmt: skip
        if not (is_fast and self.is_bad and self._random.randrange(ONE_OF) == 0):
            return Fate.FORWARD
        fate = self._random.choice(FATES)
        self.counts[fate] += 1
        return fate

    def let_go(self) -> None:
        """Let the requests that are under way reach Kafka."""
        while self.proxy.held:
            self.proxy.held.pop().let_go()


@pytest.fixture
def weather(kafka: Broker) -> Iterator[Weather]:
    weather = Weather(kafka, seed=random.randrange(10**6))  # noqa: S311
    yield weather
    weather.proxy.close()


def test_each_commit_is_visible_with_its_op_or_left_to_the_resolver(
    kafka: Broker, prefix: str, weather: Weather
) -> None:
    topics = FastTopics(kafka.bootstrap, prefix)
    topics.make()
    committed: list[Transaction] = []
    others: list[Transaction] = []
    until = time.monotonic() + SECONDS

    def work(number: int) -> None:
        chance = random.Random(number)  # noqa: S311
        while time.monotonic() < until:
            try:
                tx = producer.begin(topics.message(key=b"%d" % chance.randrange(8)))
            except SendError:
                continue
            if chance.random() < 0.8:
                tx.commit()
                committed.append(tx)
            else:
                (tx.rollback if chance.random() < 0.5 else tx.unknown)()
                others.append(tx)
            time.sleep(0.005)

    with topics.producer(server=weather.proxy.address, fast_immunity_ms=2_000) as producer:
        disturbing = threading.Thread(target=disturb, args=(topics, producer, weather, until))
        disturbing.start()
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(work, range(THREADS)))
        disturbing.join()
        weather.is_bad = False
    weather.let_go()
    for fast_id in {at.half.fast_id for at in topics.halves()} - {None}:
        topics.revoke(str(fast_id))  # as the resolver does before it ends a half in any other way
    judge(topics, committed, others)
    assert sum(weather.counts.values()) > 5


def disturb(
    topics: FastTopics, producer: TransactionProducer, weather: Weather, until: float
) -> None:
    """Revoke the present fast id now and then, and let requests come late."""
    half = Half("t", "orders", "any", 0, None, None, [])
    while time.monotonic() < until:
        time.sleep(1.5)
        weather.let_go()
        lane = producer._factory._fast_lane
        fast_id = lane.name(half).fast_id if lane is not None else None
        if fast_id is not None and random.random() < 0.4:  # noqa: S311
            topics.revoke(fast_id)


def judge(topics: FastTopics, committed: list[Transaction], others: list[Transaction]) -> None:
    visible = Counter(
        dict(message.headers() or [])["UNIQ_KEY"].decode()  # type: ignore[union-attr]
        for message in topics.read(topics.real)
    )
    delivered: Counter[str] = Counter()
    slow: Counter[str] = Counter()
    for _, op in topics.ops():
        for element in op.elements:
            delivered[element.transaction_id] += op.delivered
            slow[element.transaction_id] += (
                op.state is TransactionStatus.COMMIT_MESSAGE and not op.delivered
            )
    assert visible == +delivered
    assert set(visible.values()) <= {1}
    for tx in committed:
        assert visible[tx.transaction_id] or slow[tx.transaction_id], tx
    for tx in others:
        assert not visible[tx.transaction_id] and not slow[tx.transaction_id], tx
    assert len(visible) > len(committed) / 10
    assert slow.total() > 0
