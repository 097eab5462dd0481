"""The SQL listener behind a real agent: the ops say what the database says."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from resolver import AsyncTransactionProducer, Message, TransactionProducer, TransactionStatus
from resolver.broker import Broker
from resolver.protocol import Op
from resolver.sql import AsyncSqlTransactionListener, SqlTransactionListener, TransactionLog
from tests.support.databases import Server
from tests.support.patience import SEND_TIMEOUT_MS, wait_until

from .protocol_topics import ProtocolTopics

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
UNKNOWN = TransactionStatus.UNKNOWN
LOG = TransactionLog()


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make(f"orders-{prefix}x")
    return made


@pytest.fixture
def url(postgresql: Server) -> str:
    made = postgresql.new_database()
    engine = create_engine(made)
    LOG.metadata.create_all(engine)
    engine.dispose()
    return made


def answers(topics: ProtocolTopics) -> dict[str, Op]:
    """Return the newest op about each transaction."""
    return {element.transaction_id: op for _, op in topics.ops() for element in op.elements}


def check(topics: ProtocolTopics, offset: int) -> str:
    """Ask about a transaction, as the resolver would; return its id."""
    topics.check(f"orders-{topics.names.prefix}x", offset)
    return f"id-0-{offset}"


def commit(engine: Engine, transaction_id: str) -> None:
    with engine.begin() as connection:
        LOG.commit(connection, transaction_id)


@pytest.mark.gate
def test_an_agent_answers_checks_from_the_database(topics: ProtocolTopics, url: str) -> None:
    group, engine = f"orders-{topics.names.prefix}x", create_engine(url)
    listener = SqlTransactionListener(engine, LOG, lock_wait_seconds=0.2)
    with (
        ExitStack() as still_open,
        TransactionProducer(
            group,
            topics.bootstrap,
            listener,
            topic_prefix=topics.names.prefix,
            send_timeout_ms=SEND_TIMEOUT_MS,
        ) as producer,
    ):
        with producer.transaction(Message("orders.placed", b"{}")) as tx:
            commit(engine, tx.transaction_id)
        commit(engine, "id-0-17")
        slow = still_open.enter_context(engine.connect())
        LOG.commit(slow, "id-0-18")
        committed, running, dead = check(topics, 17), check(topics, 18), check(topics, 19)
        wait_until(lambda: {committed, running, dead, tx.transaction_id} <= set(answers(topics)))
        said = answers(topics)
        assert (said[tx.transaction_id].state, said[tx.transaction_id].from_check) == (
            COMMIT,
            False,
        )
        assert (said[committed].state, said[committed].from_check) == (COMMIT, True)
        assert (said[dead].state, said[dead].from_check) == (ROLLBACK, True)
        # No answer, which uses up none of the 15: it may still commit.
        assert (said[running].state, said[running].from_check) == (UNKNOWN, False)
        assert said[running].remark == "check_local_transaction raised OperationalError"
        slow.commit()
        check(topics, 18)
        wait_until(lambda: answers(topics)[running].from_check)
        assert answers(topics)[running].state is COMMIT
    engine.dispose()


def test_a_database_that_is_away_is_no_answer(topics: ProtocolTopics, url: str) -> None:
    group, engine = f"orders-{topics.names.prefix}x", create_engine(url)
    commit(engine, "id-0-17")
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE transaction_log RENAME TO away"))
    listener = SqlTransactionListener(engine, LOG)
    with TransactionProducer(group, topics.bootstrap, listener, topic_prefix=topics.names.prefix):
        asked = check(topics, 17)
        wait_until(lambda: asked in answers(topics))
        assert (answers(topics)[asked].state, answers(topics)[asked].from_check) == (UNKNOWN, False)
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE away RENAME TO transaction_log"))
        check(topics, 17)
        wait_until(lambda: answers(topics)[asked].state is COMMIT)
    engine.dispose()


def test_an_async_producer_answers_by_an_async_engine(topics: ProtocolTopics, url: str) -> None:
    async def play() -> None:
        group, engine = f"orders-{topics.names.prefix}x", create_async_engine(url)
        listener = AsyncSqlTransactionListener(engine, LOG)
        async with AsyncTransactionProducer(
            group, topics.bootstrap, listener, topic_prefix=topics.names.prefix
        ) as producer:
            async with producer.transaction(Message("orders.placed", b"{}")) as tx:
                async with engine.begin() as connection:
                    await LOG.commit(connection, tx.transaction_id)
            async with engine.begin() as connection:
                await LOG.commit(connection, "id-0-17")
            for offset in (17, 18):
                await asyncio.to_thread(check, topics, offset)
            wanted = {tx.transaction_id, "id-0-17", "id-0-18"}
            await asyncio.to_thread(wait_until, lambda: wanted <= set(answers(topics)))
            said = answers(topics)
            assert [said[one].state for one in (tx.transaction_id, "id-0-17", "id-0-18")] == [
                COMMIT,
                COMMIT,
                ROLLBACK,
            ]
        await engine.dispose()

    asyncio.run(play())
