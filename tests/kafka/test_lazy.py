"""A producer that starts without brokers, on a real broker that can be reached later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from resolver import (
    AsyncTransactionProducer,
    HalfNotAcknowledged,
    Message,
    RealTopicMissing,
    SendError,
    TransactionListener,
    TransactionProducer,
    TransactionsRejected,
    TransactionStatus,
)
from resolver.broker import Broker
from resolver.broker.ports import free_port
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .kafka_proxy import Fate, KafkaProxy
from .protocol_topics import REAL, ProtocolTopics, group_of

MESSAGE = Message(REAL, b"body", b"key")
#: Time in seconds that a send has while no broker is there.
SHORT = 0.3


class Orders(TransactionListener):
    """Remembers what it was asked, and commits it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        self.asked.append(message.transaction_id)
        return TransactionStatus.COMMIT_MESSAGE


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make(group_of(made))
    return made


@pytest.fixture
def port() -> int:
    """A port where nobody listens yet."""
    return free_port()


@contextmanager
def reachable(kafka: Broker, port: int) -> Iterator[None]:
    """Let the broker be reached by this port, for as long as the block lasts."""
    proxy = KafkaProxy(kafka.bootstrap, lambda _number, _frame: Fate.FORWARD, port=port)
    try:
        yield
    finally:
        proxy.close()


def lazy(topics: ProtocolTopics, port: int, listener: Orders) -> TransactionProducer:
    return TransactionProducer(
        group_of(topics),
        f"127.0.0.1:{port}",
        listener,
        topic_prefix=topics.names.prefix,
        connect="lazy",
        kafka={"reconnect.backoff.max.ms": 200},
    )


def test_a_send_without_brokers_raises_and_stores_nothing(
    topics: ProtocolTopics, port: int
) -> None:
    with lazy(topics, port, Orders()) as producer:
        with (
            pytest.raises(SendError, match=r"nothing was stored .*send_timeout_ms.*127\.0\.0\.1"),
            producer.transaction(MESSAGE, SHORT),
        ):
            pytest.fail("the local transaction ran")
    assert topics.read(topics.names.half) == []


@pytest.mark.gate
def test_when_brokers_come_the_producer_sends_and_its_agent_answers(
    kafka: Broker, topics: ProtocolTopics, port: int
) -> None:
    listener = Orders()
    topics.check(group_of(topics), offset=7)
    with lazy(topics, port, listener) as producer:
        with pytest.raises(SendError):
            producer.begin(MESSAGE, SHORT)
        with reachable(kafka, port):
            producer.begin(MESSAGE, 60).commit()
            wait_until(lambda: listener.asked == ["id-0-7"])
            wait_until(lambda: len(topics.ends()) == 2)
        with pytest.raises(HalfNotAcknowledged):  # Kafka is away again
            producer.begin(MESSAGE, SHORT)
        producer.close(SHORT)  # the half on its way is given up


def test_a_lazy_producer_refuses_what_policy_and_topics_refuse(
    kafka: Broker, topics: ProtocolTopics, port: int
) -> None:
    topics.publish(reject_transaction_message=True)
    with reachable(kafka, port), lazy(topics, port, Orders()) as producer:
        with pytest.raises(TransactionsRejected):
            producer.begin(MESSAGE, 60)
        topics.publish()
        wait_until(lambda: accepts(producer))
        with pytest.raises(RealTopicMissing):
            producer.begin(Message("orders.plaecd", b""), 60)


def accepts(producer: TransactionProducer) -> bool:
    try:
        producer.begin(MESSAGE, 60).rollback()
    except TransactionsRejected:
        return False
    return True


def test_a_lazy_producer_waits_for_topics_that_are_made_later(kafka: Broker, prefix: str) -> None:
    topics = ProtocolTopics(kafka.bootstrap, prefix)
    with lazy(topics, int(kafka.bootstrap.rpartition(":")[2]), Orders()) as producer:
        with pytest.raises(SendError, match="nothing was stored"):
            producer.begin(MESSAGE, SHORT)
        topics.make(group_of(topics))
        producer.begin(MESSAGE, 60).commit()


def test_a_lazy_producer_closes_without_brokers(topics: ProtocolTopics, port: int) -> None:
    producer = lazy(topics, port, Orders())
    producer.close()
    assert producer.agent is not None
    assert producer.agent.join(PATIENCE_SECONDS)
    with pytest.raises(SendError, match="closed"):
        producer.begin(MESSAGE)


def test_a_lazy_async_producer_does_the_same(
    kafka: Broker, topics: ProtocolTopics, port: int
) -> None:
    listener = Orders()
    topics.check(group_of(topics), offset=7)

    async def run() -> None:
        producer = AsyncTransactionProducer(
            group_of(topics),
            f"127.0.0.1:{port}",
            listener,
            topic_prefix=topics.names.prefix,
            connect="lazy",
            kafka={"reconnect.backoff.max.ms": 200},
        )
        await producer.start()
        with pytest.raises(SendError, match="nothing was stored"):
            await producer.begin(MESSAGE, SHORT)
        with reachable(kafka, port):
            (await producer.begin(MESSAGE, 60)).commit()
            await asyncio.to_thread(wait_until, lambda: listener.asked == ["id-0-7"])
            await producer.close()
        with pytest.raises(SendError, match="closed"):
            await producer.begin(MESSAGE)

    asyncio.run(run())
    wait_until(lambda: len(topics.ends()) == 2)
