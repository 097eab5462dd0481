"""What a producer refuses before anything is stored, and so before anything is committed."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from sqlalchemy import Engine, create_engine, func, select, text

from resolver import (
    AsyncTransactionProducer,
    KeyMissing,
    Message,
    MessageRefused,
    MessageTooLarge,
    PartitionMissing,
    RealTopicMissing,
    TopicNotPermitted,
    TransactionProducer,
    TransactionsRejected,
)
from resolver.broker import Broker
from resolver.kafka.clients import admin_client
from resolver.kafka.targets import batch_bytes
from resolver.producer.topic_limits import admin_of
from resolver.protocol import Half, Record, StoredHalf, commit_record
from resolver.protocol.names import MAX_OFFSET
from resolver.settings import Group
from resolver.sql import SqlTransactionListener, TransactionLog
from tests.support.databases import Server
from tests.support.patience import PATIENCE_SECONDS, SEND_TIMEOUT_MS, wait_until

from .protocol_topics import REAL, ProtocolTopics
from .topic_config import alter

LOG = TransactionLog()


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make()
    return made


@pytest.fixture
def engine(postgresql: Server) -> Iterator[Engine]:
    """A database with a table for orders and the transaction log."""
    made = create_engine(postgresql.new_database())
    LOG.metadata.create_all(made)
    with made.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (item VARCHAR(128))")
    yield made
    made.dispose()


def producer_of(topics: ProtocolTopics, **options: Any) -> TransactionProducer:
    given: dict[str, Any] = {
        "checks_elsewhere": True,
        "topic_prefix": topics.names.prefix,
        "send_timeout_ms": SEND_TIMEOUT_MS,
        **options,
    }
    return TransactionProducer("orders", topics.bootstrap, **given)


def place(engine: Engine, producer: TransactionProducer, message: Message) -> None:
    """Place an order, as an application does: its message and its row, both or neither."""
    with producer.transaction(message) as tx, engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES ('book')"))
        LOG.commit(connection, tx.transaction_id)


def rows(engine: Engine) -> tuple[int, int]:
    """Count orders and entries of the log."""
    with engine.connect() as connection:
        orders = connection.execute(text("SELECT count(*) FROM orders")).scalar_one()
        entries = connection.execute(select(func.count()).select_from(LOG.table)).scalar_one()
        return orders, entries


def halves(topics: ProtocolTopics) -> int:
    return len(topics.read(topics.names.half))


def knows(producer: TransactionProducer, is_known: Callable[[Any], bool]) -> bool:
    return is_known(producer._factory._policy.policy)


#: What the resolver permits, the message, its error, and what the error names.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], type[MessageRefused], list[str]]] = {
    "all": (
        {"reject_transaction_message": True},
        {},
        TransactionsRejected,
        ["reject_transaction_message is set in the resolver's settings", "send it later"],
    ),
    "another group's topic": (
        {"groups": {"orders": Group(("audit", "orders-*"))}},
        {},
        TopicNotPermitted,
        ["group 'orders'", "topic {}", "audit, orders-*", "have the topic added to `topics`"],
    ),
    "missing topic": (
        {},
        {"topic": "nobody-made-this"},
        RealTopicMissing,
        ["topic nobody-made-this does not exist", "--topic nobody-made-this`, or correct the name"],
    ),
    "Kafka's own topic": (
        {},
        {"topic": "__consumer_offsets"},
        TopicNotPermitted,
        ["topic __consumer_offsets is Kafka's own", "choose another"],
    ),
    "missing partition": (
        {},
        {"real_qid": 2},
        PartitionMissing,
        ["partition 2 is not there: {} has 2", "give a real_qid below that number, or None"],
    ),
    "no key": (
        {},
        {"key": None},
        KeyMissing,
        ["topic {} is compacted and the message has no key", "give a key"],
    ),
    "too large": (
        {},
        {"body": bytes(2_001)},
        MessageTooLarge,
        ["bytes are more than max.message.bytes=2000 of topic {}", "raise max.message.bytes"],
    ),
}


@pytest.mark.gate
@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_be_undeliverable_stores_and_commits_nothing(
    topics: ProtocolTopics, engine: Engine, kind: str
) -> None:
    settings, changes, refused, named = REFUSED[kind]
    real = f"real-{uuid.uuid4().hex[:8]}"
    topics.make_real(real, 2, **{"cleanup.policy": "compact", "max.message.bytes": "2000"})
    topics.publish(**settings)
    message = Message(**{"topic": real, "body": b"book", "key": b"k"} | changes)
    with producer_of(topics, listener=SqlTransactionListener(engine, LOG)) as producer:
        with pytest.raises(MessageRefused) as error:
            place(engine, producer, message)
        assert (rows(engine), halves(topics)) == ((0, 0), 0)
        assert type(error.value) is refused
        for said in named:
            assert said.format(real) in str(error.value)
        topics.publish(groups={"orders": Group(("real-*",))})
        wait_until(lambda: knows(producer, lambda policy: policy.topics == {"orders": ["real-*"]}))
        place(engine, producer, Message(real, b"book", b"k", real_qid=1))
        assert (rows(engine), halves(topics)) == ((1, 1), 1)


def test_of_many_messages_none_is_stored_if_one_is_refused(topics: ProtocolTopics) -> None:
    with producer_of(topics) as producer:
        with pytest.raises(RealTopicMissing):
            producer.begin_all([Message(REAL, b""), Message("nobody-made-this", b"")])
        assert halves(topics) == 0


def test_a_message_of_just_the_size_that_its_topic_takes_passes(topics: ProtocolTopics) -> None:
    """The headers of the commit count, and the longest offset that its half can get."""
    real, limit = f"real-{uuid.uuid4().hex[:8]}", 5_000
    topics.make_real(real, 2, **{"max.message.bytes": str(limit)})
    fitting = next(size for size in range(limit, 0, -1) if commit_bytes(real, size) <= limit)
    with producer_of(topics) as producer:
        producer.begin(Message(real, bytes(fitting), b"k", [("a", b"1")]))
        with pytest.raises(MessageTooLarge, match=f"{limit + 1} bytes are more than"):
            producer.begin(Message(real, bytes(fitting + 1), b"k", [("a", b"1")]))
    assert halves(topics) == 1


def commit_bytes(real: str, body_bytes: int) -> int:
    """Return the bytes of a commit with an id as producers choose it."""
    half = Half(str(uuid.uuid4()), "orders", real, 1, b"k", bytes(body_bytes), [("a", b"1")])
    commit = commit_record(StoredHalf(0, MAX_OFFSET, 0, half, []))
    return batch_bytes(commit.key, commit.value, commit.headers)


def test_a_topic_just_made_or_changed_is_found_before_a_message_is_refused(
    topics: ProtocolTopics,
) -> None:
    real = f"real-{uuid.uuid4().hex[:8]}"
    with producer_of(topics, real_topic_cache_ms=3_600_000) as producer:
        with pytest.raises(RealTopicMissing):
            producer.begin(Message(real, b""))
        topics.make_real(real, 1, **{"max.message.bytes": "2000"})
        producer.begin(Message(real, b""))
        with pytest.raises(MessageTooLarge):
            producer.begin(Message(real, bytes(3_000)))
        alter(admin_client(topics.settings), real, "max.message.bytes", "4000")
        producer.begin(Message(real, bytes(3_000)))


def test_a_topic_that_is_gone_is_noticed_when_its_facts_are_old(topics: ProtocolTopics) -> None:
    real = f"real-{uuid.uuid4().hex[:8]}"
    topics.make_real(real)
    admin = admin_client(topics.settings)
    with producer_of(topics, real_topic_cache_ms=1) as fresh, producer_of(topics) as old:
        for producer in (fresh, old):
            producer.begin(Message(real, b""))
        admin.delete_topics([real])[real].result(PATIENCE_SECONDS)
        wait_until(lambda: real not in admin.list_topics(timeout=30).topics)
        with pytest.raises(RealTopicMissing):
            fresh.begin(Message(real, b""))
        old.begin(Message(real, b""))


def test_kafka_is_asked_once_about_a_topic_and_not_for_each_message(
    topics: ProtocolTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    describe = AdminClient.describe_topics

    def counted(admin: AdminClient, collection: Any, **options: Any) -> Any:
        asked.append(collection)
        return describe(admin, collection, **options)

    with producer_of(topics) as producer:
        monkeypatch.setattr(AdminClient, "describe_topics", counted)
        for _ in range(100):
            producer.begin(Message(REAL, b""))
    assert len(asked) == 1


def test_many_senders_at_once_ask_by_one_client(
    topics: ProtocolTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[AdminClient] = []

    def counted(options: Any) -> AdminClient:
        made.append(admin_of(options))
        return made[-1]

    monkeypatch.setattr("resolver.producer.real_topics.admin_of", counted)

    async def all_at_once() -> list[Any]:
        given: dict[str, Any] = {"checks_elsewhere": True, "topic_prefix": topics.names.prefix}
        async with AsyncTransactionProducer("orders", topics.bootstrap, **given) as producer:
            names = [REAL, "nobody-made-this", "nor-this"] * 40
            sent = (producer.begin(Message(name, b"x", key=b"k")) for name in names)
            return await asyncio.gather(*sent, return_exceptions=True)

    found = asyncio.run(all_at_once())
    assert sum(isinstance(one, RealTopicMissing) for one in found) == 80
    assert (len(made), halves(topics)) == (1, 40)


def test_without_the_check_of_topics_none_is_asked_about(topics: ProtocolTopics) -> None:
    with producer_of(topics, check_real_topics=False) as producer:
        producer.begin(Message("nobody-made-this", b""))
    assert halves(topics) == 1


def test_tasks_are_refused_alike_and_the_event_loop_is_not_held_up(topics: ProtocolTopics) -> None:
    async def scenario() -> None:
        async with AsyncTransactionProducer(
            "orders", topics.bootstrap, checks_elsewhere=True, topic_prefix=topics.names.prefix
        ) as producer:
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            turning = asyncio.create_task(turn())
            good = [producer.begin(Message(REAL, b"")) for _ in range(20)]
            bad = [producer.begin(Message("nobody-made-this", b"")) for _ in range(20)]
            said = await asyncio.gather(*good, *bad, return_exceptions=True)
            turning.cancel()
            assert all(isinstance(one, RealTopicMissing) for one in said[20:])
            assert not any(isinstance(one, BaseException) for one in said[:20])
            assert turns > 20  # while Kafka was asked

    asyncio.run(asyncio.wait_for(scenario(), 120))
    assert halves(topics) == 20


@pytest.mark.gate
def test_a_policy_that_changes_is_followed(topics: ProtocolTopics) -> None:
    topics.publish()
    with producer_of(topics) as producer:
        producer.begin(Message(REAL, b""))
        topics.publish(reject_transaction_message=True)
        wait_until(lambda: knows(producer, lambda policy: policy.rejects))
        with pytest.raises(TransactionsRejected):
            producer.begin(Message(REAL, b""))
        topics.publish()
        wait_until(lambda: knows(producer, lambda policy: not policy.rejects))
        producer.begin(Message(REAL, b""))


@pytest.mark.parametrize("value", [None, b"?", b'{"version":2,"reject":true,"topics":{}}'])
def test_a_record_that_is_no_policy_is_said_once_and_refuses_nothing(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture, value: bytes | None
) -> None:
    topics.publish(reject_transaction_message=True)
    topics.write(*[Record(topics.names.policy, b"policy", value, [], 0)] * 2)
    with caplog.at_level(logging.WARNING, "resolver"), producer_of(topics) as producer:
        producer.begin(Message(REAL, b""))
        topics.publish(groups={"*": Group(())})
        wait_until(lambda: knows(producer, lambda policy: policy is not None))
        with pytest.raises(TopicNotPermitted):
            producer.begin(Message(REAL, b""))
    said = [line for line in caplog.messages if "policy can't be read" in line]
    assert len(said) == 1
    assert "end as UNDELIVERABLE" in said[0]


def test_a_topic_of_the_policy_that_is_not_there_is_said_once_and_followed_when_it_is(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    admin = admin_client(topics.settings)
    admin.delete_topics([topics.names.policy])[topics.names.policy].result(PATIENCE_SECONDS)
    wait_until(lambda: topics.names.policy not in admin.list_topics(timeout=30).topics)
    with caplog.at_level(logging.WARNING, "resolver"), producer_of(topics) as producer:
        producer.begin(Message(REAL, b""))
        topics.make()
        topics.publish(reject_transaction_message=True)
        wait_until(lambda: knows(producer, lambda policy: policy is not None and policy.rejects))
    said = [line for line in caplog.messages if "policy can't be read" in line]
    assert len(said) == 1
    assert "`txresolver topics create` makes the topic" in said[0]
