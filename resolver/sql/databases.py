"""The differences between the databases that a transaction log can be in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Dialect, Executable, Insert, Table, literal_column, text
from sqlalchemy.dialects import mysql, postgresql, sqlite

from ..errors import TransactionLogError


class Cursor(Protocol):
    """The result of a statement: SQLAlchemy's, or the cursor of a driver."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...


Run = Callable[[Executable], Cursor]


@dataclass(frozen=True, slots=True)
class LockWait:
    """The statements that limit a session's wait for locks, in units of `unit_ms`.

    Without `current`, the limit ends with the transaction. With it, the former limit is put back.
    """

    limit: str
    unit_ms: int
    current: str | None = None


@dataclass(frozen=True, slots=True)
class Database:
    """One kind of database.

    Attributes:
        now: Seconds since 1970 by the database's clock, while the statement runs.
        insert_absent: An insert of these values that does nothing if the id is there already.
        isolation: The isolation level of a check's transaction. None: the engine's level.
        binary_ids: Whether ids are stored as bytes in UTF-8, since the database does not compare
            texts byte by byte.
    """

    name: str
    dialect: Callable[..., Dialect]
    now: ColumnElement[int]
    insert_absent: Callable[[Table, Mapping[str, Any]], Insert]
    lock_wait: LockWait
    isolation: str | None = None
    binary_ids: bool = False

    def stored_id(self, transaction_id: str) -> str | bytes:
        """Return a transaction's id as its column stores it."""
        return transaction_id.encode() if self.binary_ids else transaction_id

    @contextmanager
    def waiting_at_most(self, seconds: float, run: Run) -> Iterator[None]:
        """Limit the waiting for locks of statements in the block; after `seconds` they raise."""
        wait = self.lock_wait
        before = None if wait.current is None else run(text(wait.current)).fetchone()[0]
        run(text(wait.limit.format(max(1, ceil(seconds * 1000 / wait.unit_ms)))))
        try:
            yield
        except Exception:
            # The block's error counts: after a lost connection this statement fails too.
            with suppress(Exception):
                self._wait_as_before(before, run)
            raise
        # Not after a cancellation: its connection is closed.
        self._wait_as_before(before, run)

    def _wait_as_before(self, before: int | None, run: Run) -> None:
        if before is not None:
            run(text(self.lock_wait.limit.format(int(before))))


def database(name: str) -> Database:
    """Return a database by the name that SQLAlchemy and Django have for it."""
    known = _DATABASES.get(name)
    if known is None:
        raise TransactionLogError(
            f"the database is {name!r}", remedy=f"use one of {', '.join(_DATABASES)}"
        )
    return known


def _postgresql_insert(table: Table, values: Mapping[str, Any]) -> Insert:
    return postgresql.insert(table).values(values).on_conflict_do_nothing()


def _sqlite_insert(table: Table, values: Mapping[str, Any]) -> Insert:
    return sqlite.insert(table).values(values).on_conflict_do_nothing()


def _mysql_insert(table: Table, values: Mapping[str, Any]) -> Insert:
    # Avoid IGNORE: it makes warnings of other errors too, such as an id that is cut off.
    unchanged = {"transaction_id": table.c.transaction_id}
    return mysql.insert(table).values(values).on_duplicate_key_update(unchanged)


_POSTGRESQL = Database(
    "postgresql",
    postgresql.dialect,
    # Avoid now(): it is the time when the transaction began, maybe before the message was sent.
    literal_column("CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)"),
    _postgresql_insert,
    LockWait("SET LOCAL lock_timeout = {}", 1),
    # Set the level: SET LOCAL has no effect without a transaction, as in an engine with AUTOCOMMIT.
    # Moreover, from REPEATABLE READ on, the insert fails if it waited for another insert that
    # committed.
    isolation="READ COMMITTED",
)
_MYSQL = Database(
    "mysql",
    mysql.dialect,
    literal_column("UNIX_TIMESTAMP()"),
    _mysql_insert,
    LockWait(
        "SET SESSION innodb_lock_wait_timeout = {}",
        1000,
        "SELECT @@SESSION.innodb_lock_wait_timeout",
    ),
    binary_ids=True,
)
_SQLITE = Database(
    "sqlite",
    sqlite.dialect,
    literal_column("CAST((julianday('now') - 2440587.5) * 86400 AS INTEGER)"),
    _sqlite_insert,
    LockWait("PRAGMA busy_timeout = {}", 1, "PRAGMA busy_timeout"),
)
_DATABASES = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL, "sqlite": _SQLITE}
