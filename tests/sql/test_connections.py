"""A driver's own connection, as sqlite3 and psycopg have it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import psycopg
import pymysql
import pytest
from sqlalchemy import make_url

from resolver import TransactionStatus
from resolver.errors import TransactionLogError
from resolver.sql import SAFE_AGE, TransactionLog
from tests.support.databases import Server

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
Connect = Callable[..., AbstractContextManager["sqlite3.Connection | psycopg.Connection"]]


@pytest.fixture(params=["sqlite3", "psycopg"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """Make a connection, each time; `autocommit` as the driver has it."""
    if request.param == "sqlite3":
        file = tmp_path / "shop.db"
        return lambda autocommit=False: closing(
            sqlite3.connect(file, isolation_level=None if autocommit else "DEFERRED")
        )
    where = make_url(request.getfixturevalue("postgresql").new_database())
    conninfo = f"host={where.query['host']} user=test dbname={where.database}"
    return lambda autocommit=False: psycopg.connect(conninfo, autocommit=autocommit)


@pytest.fixture
def log(connect: Connect) -> TransactionLog:
    made = TransactionLog()
    with connect() as connection:
        for statement in made.ddl(database_of(connection)).split(";"):
            connection.execute(statement)
        connection.commit()
    return made


def database_of(connection: object) -> str:
    return "sqlite" if isinstance(connection, sqlite3.Connection) else "postgresql"


def test_a_driver_s_own_connection(connect: Connect, log: TransactionLog) -> None:
    with connect() as connection:
        log.commit(connection, "100 %s?")
        connection.commit()
        log.commit(connection, "undone")
        connection.rollback()
    with connect() as connection:
        assert log.settle(connection, "100 %s?") is COMMIT
        assert log.settle(connection, "undone") is ROLLBACK
        assert log.prune(connection, SAFE_AGE) == 0
        connection.commit()
    with connect() as connection, pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
        log.commit(connection, "undone")


def test_one_without_a_transaction_is_refused(connect: Connect, log: TransactionLog) -> None:
    with connect(autocommit=True) as connection:
        with pytest.raises(TransactionLogError, match="autocommit"):
            log.commit(connection, "id")
        connection.execute("BEGIN")
        log.commit(connection, "id")
        connection.execute("COMMIT")
        assert log.settle(connection, "id") is COMMIT


def test_an_unknown_connection_is_refused(mariadb: Server) -> None:
    """PyMySQL's does not know whether it is in a transaction."""
    log, socket = TransactionLog(), mariadb.url.query["unix_socket"]
    with closing(pymysql.connect(unix_socket=str(socket), user="root")) as connection:
        with pytest.raises(TransactionLogError, match=r"pymysql\.connections\.Connection; give"):
            log.commit(connection, "id")
    with pytest.raises(TransactionLogError, match="NoneType"):
        log.commit(None, "id")


def test_an_async_connection_of_a_driver_is_refused(postgresql: Server) -> None:
    log = TransactionLog()

    async def refused() -> None:
        conninfo = f"host={postgresql.url.query['host']} user=test dbname=postgres"
        async with await psycopg.AsyncConnection.connect(conninfo) as connection:
            with pytest.raises(TransactionLogError, match="AsyncConnection; give"):
                log.commit(connection, "id")

    asyncio.run(refused())
