"""The log and its listener in asyncio, with a driver that is async itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from resolver import Message, TransactionStatus
from resolver.protocol import Half, HalfId
from resolver.sql import SAFE_AGE, AsyncSqlTransactionListener, TransactionLog

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE


def asked(transaction_id: str) -> Message:
    return Message.of_half(
        Half(transaction_id, "g", "orders.placed", 1, None, b"", []), HalfId(0, 0)
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def async_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}"
    made: str = request.getfixturevalue("postgresql").new_database()
    return made


def run(async_url: str, play: Callable[[AsyncEngine, TransactionLog], Awaitable[None]]) -> None:
    async def played() -> None:
        engine, log = create_async_engine(async_url), TransactionLog()
        async with engine.begin() as connection:
            await connection.run_sync(log.metadata.create_all)
        await play(engine, log)
        await engine.dispose()

    asyncio.run(played())


@pytest.mark.gate
def test_a_connection_and_a_session_are_awaited(async_url: str) -> None:
    async def play(engine: AsyncEngine, log: TransactionLog) -> None:
        listener = AsyncSqlTransactionListener(engine, log, lock_wait_seconds=0.2)
        async with engine.begin() as connection:
            await log.commit(connection, "connection")
        async with AsyncSession(engine) as session, session.begin():
            await log.commit(session, "session")
        assert await listener.check_local_transaction(asked("connection")) is COMMIT
        assert await listener.check_local_transaction(asked("session")) is COMMIT
        async with engine.begin() as connection:
            assert await log.prune(connection, SAFE_AGE) == 0

    run(async_url, play)


def test_a_rollback_that_was_answered_is_final(async_url: str) -> None:
    async def play(engine: AsyncEngine, log: TransactionLog) -> None:
        listener = AsyncSqlTransactionListener(engine, log, lock_wait_seconds=0.2)
        assert await listener.check_local_transaction(asked("slow")) is ROLLBACK
        with pytest.raises(IntegrityError):
            async with engine.begin() as connection:
                await log.commit(connection, "slow")
        assert await listener.check_local_transaction(asked("slow")) is ROLLBACK

    run(async_url, play)


def test_a_check_gives_up_where_the_local_transaction_is_still_open(async_url: str) -> None:
    async def play(engine: AsyncEngine, log: TransactionLog) -> None:
        listener = AsyncSqlTransactionListener(engine, log, lock_wait_seconds=0.2)
        async with engine.begin() as connection:
            await log.commit(connection, "open")
            with pytest.raises(OperationalError):
                await listener.check_local_transaction(asked("open"))
        assert await listener.check_local_transaction(asked("open")) is COMMIT

    run(async_url, play)


def test_a_check_that_is_cancelled_while_it_waits_raises_cancelled_error(async_url: str) -> None:
    async def play(engine: AsyncEngine, log: TransactionLog) -> None:
        listener = AsyncSqlTransactionListener(engine, log, lock_wait_seconds=3)
        inserts = asyncio.Event()

        def see(*call: object) -> None:
            if str(call[2]).startswith("INSERT"):
                inserts.set()

        async with engine.begin() as connection:
            await log.commit(connection, "open")
            event.listen(engine.sync_engine, "before_cursor_execute", see)
            check = asyncio.create_task(listener.check_local_transaction(asked("open")))
            await inserts.wait()
            check.cancel()
            with pytest.raises(asyncio.CancelledError):
                await check
        assert await listener.check_local_transaction(asked("open")) is COMMIT

    run(async_url, play)
