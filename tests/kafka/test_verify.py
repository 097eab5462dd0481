"""`verify`: the mistakes that a crash would show are raised at the commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine

from resolver import (
    AsyncTransactionProducer,
    CommitNotConfirmed,
    Message,
    TransactionListener,
    TransactionProducer,
    TransactionStatus,
)
from resolver.broker import Broker
from resolver.sql import AsyncSqlTransactionListener, SqlTransactionListener, TransactionLog
from tests.support.patience import SEND_TIMEOUT_MS

from .protocol_topics import ProtocolTopics

LAMP = Message("orders.placed", b"lamp")
LOG = TransactionLog()


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make("orders")
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    made: str = request.getfixturevalue("postgresql").new_database()
    return made


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(url)
    LOG.metadata.create_all(made)
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE orders (item VARCHAR(80))"))
    yield made
    made.dispose()


def verifying(topics: ProtocolTopics, engine: Engine) -> TransactionProducer:
    listener = SqlTransactionListener(engine, LOG, lock_wait_seconds=0.2)
    return TransactionProducer(
        "orders",
        topics.bootstrap,
        listener,
        topic_prefix=topics.names.prefix,
        verify=True,
        send_timeout_ms=SEND_TIMEOUT_MS,
    )


def place(engine: Engine, *transaction_ids: str) -> None:
    with engine.begin() as connection:
        for transaction_id in transaction_ids:
            LOG.commit(connection, transaction_id)
        connection.execute(text("INSERT INTO orders VALUES ('lamp')"))


def orders(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM orders")).scalar_one())


def states(topics: ProtocolTopics) -> list[str]:
    return [state for _, state in topics.ends()]


def test_a_commit_that_a_check_would_find_is_sent(topics: ProtocolTopics, engine: Engine) -> None:
    with verifying(topics, engine) as producer:
        with producer.transaction(LAMP) as tx:
            place(engine, tx.transaction_id)
        with producer.transactions([LAMP, LAMP]) as both:
            place(engine, *(tx.transaction_id for tx in both))
        by_hand = producer.begin(LAMP)
        place(engine, by_hand.transaction_id)
        by_hand.commit()
        producer.begin(LAMP).rollback()  # nothing is asked
    assert sorted(states(topics)) == ["COMMIT_MESSAGE"] * 4 + ["ROLLBACK_MESSAGE"]


@pytest.mark.gate
def test_an_id_that_is_not_written_is_told_at_the_commit(
    topics: ProtocolTopics, engine: Engine
) -> None:
    with verifying(topics, engine) as producer:
        with pytest.raises(CommitNotConfirmed, match="write its id in the local transaction"):
            with producer.transaction(LAMP):
                place(engine)
        by_hand = producer.begin(LAMP)
        with pytest.raises(CommitNotConfirmed, match=by_hand.transaction_id):
            by_hand.commit()
        assert by_hand.state is TransactionStatus.UNKNOWN
        with (
            pytest.raises(CommitNotConfirmed),
            producer.transactions([LAMP, LAMP]) as (first, _second),
        ):
            place(engine, first.transaction_id)
    assert states(topics) == ["UNKNOWN"] * 4


def test_a_database_that_commits_after_the_message_is_told_and_rolled_back(
    topics: ProtocolTopics, engine: Engine
) -> None:
    with verifying(topics, engine) as producer:
        with (
            pytest.raises(CommitNotConfirmed, match="let the database commit before") as caught,
            engine.begin() as connection,
            producer.transaction(LAMP) as tx,
        ):
            LOG.commit(connection, tx.transaction_id)
            connection.execute(text("INSERT INTO orders VALUES ('lamp')"))
        assert isinstance(caught.value.__cause__, OperationalError)
    assert orders(engine) == 0
    assert states(topics) == ["UNKNOWN"]


class InThread(TransactionListener):
    """Knows what its own thread knows, as Django's connections do."""

    def __init__(self) -> None:
        self.known = threading.local()

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        self.known.id = message.transaction_id
        return TransactionStatus.COMMIT_MESSAGE

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        if getattr(self.known, "id", "") == message.transaction_id:
            return TransactionStatus.COMMIT_MESSAGE
        return TransactionStatus.UNKNOWN


def test_the_listener_is_asked_in_another_thread_and_in_rocketmqs_form_too(
    topics: ProtocolTopics,
) -> None:
    with (
        TransactionProducer(
            "orders", topics.bootstrap, InThread(), topic_prefix=topics.names.prefix, verify=True
        ) as producer,
        pytest.raises(CommitNotConfirmed, match="the listener answers UNKNOWN"),
    ):
        producer.send_message_in_transaction(LAMP)
    assert states(topics) == ["UNKNOWN"]


class Hangs(TransactionListener):
    def __init__(self) -> None:
        self.end = threading.Event()

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        self.end.wait(60)
        return TransactionStatus.COMMIT_MESSAGE


def test_a_listener_that_hangs_is_waited_for_as_long_as_a_check_would(
    topics: ProtocolTopics,
) -> None:
    listener, prefix = Hangs(), topics.names.prefix
    with TransactionProducer(
        "orders", topics.bootstrap, listener, topic_prefix=prefix, verify=True, check_timeout_ms=50
    ) as producer:
        with (
            pytest.raises(CommitNotConfirmed, match="none came within check_timeout_ms, 50"),
            producer.transaction(LAMP),
        ):
            pass
        listener.end.set()


def test_the_environment_turns_it_on_and_the_argument_wins(
    topics: ProtocolTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXRESOLVER_VERIFY", "1")
    given: dict[str, Any] = {"listener": InThread(), "topic_prefix": topics.names.prefix}
    with TransactionProducer("orders", topics.bootstrap, **given) as producer:
        with pytest.raises(CommitNotConfirmed), producer.transaction(LAMP):
            pass
    with TransactionProducer("orders", topics.bootstrap, verify=False, **given) as producer:
        with producer.transaction(LAMP):
            pass


def test_asyncio_verifies_blocks_and_warns_of_commits_by_hand(
    topics: ProtocolTopics, url: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        shop = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))
        listener = AsyncSqlTransactionListener(shop, LOG, lock_wait_seconds=0.2)
        async with AsyncTransactionProducer(
            "orders", topics.bootstrap, listener, topic_prefix=topics.names.prefix, verify=True
        ) as producer:
            async with producer.transaction(LAMP) as tx, shop.begin() as connection:
                await LOG.commit(connection, tx.transaction_id)
            with pytest.raises(CommitNotConfirmed, match="write its id"):
                async with producer.transaction(LAMP):
                    pass
            with pytest.raises(CommitNotConfirmed, match="let the database commit before"):
                async with shop.begin() as connection, producer.transaction(LAMP) as tx:
                    await LOG.commit(connection, tx.transaction_id)
            in_thread = await producer.begin(LAMP)
            with pytest.raises(CommitNotConfirmed):
                await asyncio.to_thread(in_thread.commit)
            (await producer.begin(LAMP)).commit()
        await shop.dispose()

    asyncio.run(play())
    assert sorted(states(topics)) == ["COMMIT_MESSAGE"] * 2 + ["UNKNOWN"] * 3
    assert "is not verified: commit() can't wait in the event loop" in caplog.text
