"""Listeners that answer checks from a transaction log."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from ..producer.listener import TransactionListener
from ..producer.message import Message
from ..protocol import TransactionStatus
from .databases import database
from .log import TransactionLog


class SqlTransactionListener(TransactionListener):
    """Answers COMMIT for an id that is committed in the log; rolls back others, then ROLLBACK.

    A local transaction that has written its id and not ended keeps the check waiting. After
    `lock_wait_seconds` the database's error is raised. An error is no answer: the resolver asks
    again, up to `file_reserved_hours`. UNKNOWN would be an answer, and 15 of them discard a message
    whose local transaction may yet commit. Keep `lock_wait_seconds` well below the agent's
    `check_timeout_ms`. MySQL knows whole seconds only.

    `engine` leads to the database that the local transactions write to, not to a replica. Subclass
    the listener to add `execute_local_transaction`.

    Example:
        ```python
        listener = SqlTransactionListener(engine, log)
        producer = TransactionProducer("orders", servers, listener)
        ```
    """

    def __init__(
        self, engine: Engine, log: TransactionLog, *, lock_wait_seconds: float = 2.0
    ) -> None:
        self.engine = engine
        self.log = log
        self._seconds = lock_wait_seconds
        self._options = _options(engine.dialect.name)

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        with self.engine.connect() as plain:
            connection = plain.execution_options(**self._options)
            with connection.begin():
                status = self.log.settle(connection, message.transaction_id, self._seconds)
        return status


class AsyncSqlTransactionListener:
    """`SqlTransactionListener` for `AsyncTransactionProducer`: its check runs in the event loop.

    Example:
        ```python
        engine = create_async_engine("postgresql+psycopg://shop@localhost/shop")
        listener = AsyncSqlTransactionListener(engine, log)
        producer = AsyncTransactionProducer("orders", servers, listener)
        ```
    """

    def __init__(
        self, engine: AsyncEngine, log: TransactionLog, *, lock_wait_seconds: float = 2.0
    ) -> None:
        self.engine = engine
        self.log = log
        self._seconds = lock_wait_seconds
        self._options = _options(engine.dialect.name)

    async def check_local_transaction(self, message: Message) -> TransactionStatus:
        async with self.engine.connect() as plain:
            connection = await plain.execution_options(**self._options)
            async with connection.begin():
                status = await self.log.settle(connection, message.transaction_id, self._seconds)
        return status


def _options(name: str) -> dict[str, Any]:
    isolation = database(name).isolation
    return {} if isolation is None else {"isolation_level": isolation}
