"""The transaction log: the table that says which local transactions committed."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, overload

from sqlalchemy import ColumnElement, MetaData, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateIndex, CreateTable

from ..errors import TransactionLogError
from ..protocol import TransactionStatus
from .connections import ASYNC, Connected, connected
from .databases import database
from .table import log_table, row_of

#: Least age of a row that is deleted; `TransactionLog.prune` has the sum.
SAFE_AGE = timedelta(days=30)


class TransactionLog:
    """A table with a row for each local transaction whose end is known.

    | column | |
    | --- | --- |
    | transaction_id | primary key, compared byte by byte |
    | committed | true: the local transaction committed; false: a check rolled it back |
    | written_at | seconds since 1970, by the database's clock |

    It has to be in the database that the local transactions write to. `name` and `schema` say
    where: ASCII letters, digits and `_`, 48 at most. Give `metadata` (as an ORM's `Base.metadata`)
    to make or migrate the table with others.

    Example:
        ```python
        log = TransactionLog()
        log.metadata.create_all(engine)
        with producer.transaction(message) as tx, engine.begin() as connection:
            log.commit(connection, tx.transaction_id)
            connection.execute(orders.insert().values(item="lamp"))
        ```
    """

    def __init__(
        self,
        name: str = "transaction_log",
        *,
        schema: str | None = None,
        metadata: MetaData | None = None,
    ) -> None:
        self.metadata = MetaData() if metadata is None else metadata
        self.table = log_table(name, schema, self.metadata)

    def __repr__(self) -> str:
        return f"<TransactionLog {self.table.fullname}>"

    def ddl(self, database_name: str) -> str:
        """Return the statements that make the table, for a migration.

        `database_name` is `postgresql`, `mysql`, `mariadb` or `sqlite`.
        """
        dialect = database(database_name).dialect()
        made: list[Any] = [CreateTable(self.table), *map(CreateIndex, self.table.indexes)]
        return "".join(f"{str(ddl.compile(dialect=dialect)).strip()};\n" for ddl in made)

    @overload
    def commit(
        self, connection: AsyncConnection | AsyncSession, transaction_id: str
    ) -> Coroutine[Any, Any, None]: ...
    @overload
    def commit(self, connection: Any, transaction_id: str) -> None: ...
    def commit(self, connection: Any, transaction_id: str) -> Any:
        """Write the id down as committed, in the connection's own transaction.

        So the row is there only if this transaction commits. Call it before all else: a check that
        comes meanwhile then waits for this transaction.

        The connection is SQLAlchemy's (Connection, Session), Django's, sqlite3's or psycopg's. With
        SQLAlchemy's AsyncConnection and AsyncSession the call is awaited.

        The database's own IntegrityError means that the id is there: a check was answered with a
        rollback, or this transaction has committed once before. Roll back, do not try again. Raises
        `TransactionLogError` where the connection has no transaction (autocommit).
        """
        if isinstance(connection, ASYNC):
            return connection.run_sync(self.commit, transaction_id)
        handle = connected(connection, self.table)
        if handle.autocommit:
            raise TransactionLogError(
                "the connection commits each statement by itself (autocommit), so the id would "
                "be there without the rest",
                remedy="begin a transaction first, as by `with engine.begin() as connection:` or "
                "Django's `with transaction.atomic():`",
            )
        handle.run(insert(self.table).values(row_of(handle.database, transaction_id, True)))
        return None

    @overload
    def settle(
        self,
        connection: AsyncConnection | AsyncSession,
        transaction_id: str,
        lock_wait_seconds: float = 2.0,
    ) -> Coroutine[Any, Any, TransactionStatus]: ...
    @overload
    def settle(
        self, connection: Any, transaction_id: str, lock_wait_seconds: float = 2.0
    ) -> TransactionStatus: ...
    def settle(self, connection: Any, transaction_id: str, lock_wait_seconds: float = 2.0) -> Any:
        """Return the status of a local transaction; without a trace of it, roll it back here.

        The rollback is written down, so that a local transaction that still runs fails on its
        primary key. A listener calls this in a transaction of its own, and answers with the status
        after its commit. Raises the database's error if the id is locked for longer than
        `lock_wait_seconds`: the local transaction that wrote it has not ended.
        """
        if isinstance(connection, ASYNC):
            return connection.run_sync(self.settle, transaction_id, lock_wait_seconds)
        handle = connected(connection, self.table)
        row = row_of(handle.database, transaction_id, False)
        with handle.database.waiting_at_most(lock_wait_seconds, handle.run):
            handle.run(handle.database.insert_absent(self.table, row))
        # Read last: after the insert, no other transaction that wrote this id is open.
        wanted = self.table.c.transaction_id == row["transaction_id"]
        stored = handle.run(select(self.table.c.committed).where(wanted)).fetchone()
        if stored is None:
            raise TransactionLogError(
                f"transaction {transaction_id} is not in {self.table.fullname} although it was "
                "just written",
                remedy="ask in a new transaction, and see who deletes rows",
            )
        return TransactionStatus.COMMIT_MESSAGE if stored[0] else TransactionStatus.ROLLBACK_MESSAGE

    @overload
    def prune(
        self,
        connection: AsyncConnection | AsyncSession,
        older_than: timedelta,
        *,
        safe_age: timedelta = SAFE_AGE,
        limit: int = 10_000,
    ) -> Coroutine[Any, Any, int]: ...
    @overload
    def prune(
        self,
        connection: Any,
        older_than: timedelta,
        *,
        safe_age: timedelta = SAFE_AGE,
        limit: int = 10_000,
    ) -> int: ...
    def prune(
        self,
        connection: Any,
        older_than: timedelta,
        *,
        safe_age: timedelta = SAFE_AGE,
        limit: int = 10_000,
    ) -> Any:
        """Delete the oldest rows of that age and return their number; call it until this is 0.

        It deletes `limit` rows, and more only if they were written in the same second.

        A row may go when no check for its transaction can come any more. A later check of a
        committed transaction is answered as rolled back, and its message is lost. So `older_than`
        is at least the sum of

        - `file_reserved_hours` (72): for this time a half pends and is asked about;
        - `retention.ms` + `segment.ms` of the check topic (14 days as it is made): for this time a
          check waits there for agents that are away;
        - the longest time that the resolver may be down: once back, it asks about halves that still
          pend;
        - the time after which nobody brings back a discarded message, which keeps its id.

        The first two are 17 days; `SAFE_AGE`, 30 days, leaves 13 for the others. With settings of
        your own give your own sum as `safe_age`. A smaller `older_than` is refused
        (`TransactionLogError`).
        """
        if older_than < safe_age:
            raise TransactionLogError(
                f"rows of {older_than} may still be asked about",
                remedy=f"give {safe_age} or more, or a `safe_age` that is right for your settings "
                "(see docs/sql.md)",
            )
        if isinstance(connection, ASYNC):
            return connection.run_sync(self.prune, older_than, safe_age=safe_age, limit=limit)
        handle = connected(connection, self.table)
        # Take the earlier clock: rows must not go because a clock was put ahead.
        now = min(int(handle.run(select(handle.database.now)).fetchone()[0]), int(time.time()))
        old = self._oldest(handle, now - int(older_than.total_seconds()), limit)
        return handle.run(delete(self.table).where(old)).rowcount

    def _oldest(self, handle: Connected, before: int, limit: int) -> ColumnElement[bool]:
        """Return the condition for about `limit` rows: a range of the index, and no other rows."""
        written_at = self.table.c.written_at
        times = select(written_at).where(written_at < before).order_by(written_at)
        last = handle.run(times.offset(limit - 1).limit(1)).fetchone()
        return written_at < before if last is None else written_at <= last[0]
