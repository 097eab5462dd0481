"""The connections that a transaction log takes: SQLAlchemy's, Django's, and two drivers' own."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from ..errors import TransactionLogError
from .databases import Cursor, Database, Run, database

#: Async connections: their `run_sync` runs code for their sync counterparts.
ASYNC = (AsyncConnection, AsyncSession)


class Connected(NamedTuple):
    """A connection: its database, and the function that runs a statement on it.

    With `autocommit`, each statement is a transaction of its own.
    """

    database: Database
    run: Run
    autocommit: bool


def connected(connection: Any, table: Table) -> Connected:
    """Return the use of a connection; raises `TransactionLogError` for an unknown kind."""
    if isinstance(connection, (Session, scoped_session)):
        connection = connection.connection(bind_arguments={"clause": table})
    if isinstance(connection, Connection):
        return _of_sqlalchemy(connection)
    if hasattr(connection, "in_atomic_block"):
        return _of_django(connection)
    if isinstance(connection, sqlite3.Connection):
        run = _runs(connection, database("sqlite"), "qmark")
        return Connected(database("sqlite"), run, _sqlite3_autocommit(connection))
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        run = _runs(connection, database("postgresql"), "format")
        return Connected(database("postgresql"), run, connection.autocommit and idle)
    raise TransactionLogError(
        f"the connection is a {type(connection).__module__}.{type(connection).__qualname__}",
        remedy="give a Connection or Session of SQLAlchemy (sync or asyncio), Django's "
        "connection, or one of sqlite3 or psycopg",
    )


def _of_sqlalchemy(connection: Connection) -> Connected:
    if not connection.in_transaction():
        connection.begin()  # as its first statement would
    raw: Any = connection.connection
    if connection.dialect.name == "sqlite":
        # SQLAlchemy neither sees a BEGIN of the application nor sqlite3's `autocommit`.
        autocommit = _sqlite3_autocommit(raw.driver_connection)
    else:
        autocommit = connection.dialect.detect_autocommit_setting(raw.dbapi_connection)
    return Connected(database(connection.dialect.name), connection.execute, autocommit)


def _of_django(connection: Any) -> Connected:
    known = database(connection.vendor)
    autocommit = not connection.in_atomic_block and connection.get_autocommit()
    return Connected(known, _runs(connection, known, "format"), autocommit)


def _sqlite3_autocommit(connection: Any) -> bool:
    if connection.in_transaction:
        return False
    # Python 3.12 has `autocommit`; unless it is a bool, `isolation_level` decides.
    return getattr(connection, "autocommit", None) is True or connection.isolation_level is None


def _runs(connection: Any, known: Database, paramstyle: str) -> Run:
    dialect = known.dialect(paramstyle=paramstyle)

    def run(statement: Any) -> Cursor:
        compiled = statement.compile(dialect=dialect)
        cursor = connection.cursor()
        cursor.execute(str(compiled), [compiled.params[name] for name in compiled.positiontup])
        return cursor  # type: ignore[no-any-return]

    return run
