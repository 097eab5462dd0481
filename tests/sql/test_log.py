"""The transaction log on each database: what is written, what is answered, what may go."""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Session

from resolver import Message, TransactionStatus
from resolver.errors import TransactionLogError
from resolver.protocol import Half, HalfId
from resolver.sql import SAFE_AGE, SqlTransactionListener, TransactionLog
from tests.support.databases import Server

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
#: Alike for one comparison or another that is not byte by byte.
ALIKE = [
    "id-1",
    "ID-1",
    "id-1 ",
    "id-1  ",
    " id-1",
    "id-1\t",
    "\u00e9",  # é in one code point
    "e\u0301",  # and in two
    "e",
    "\u00df",
    "ss",
    "\u0130",
    "i",
    "0",
    "00",
    "0.0",
    "\u4e2d" * 128,
    "\U0001f600" * 128,
    "\U0001f600" * 127,
    "%s",
    "'",
    "\\",
    "\\x41",
    "?",
    ":id",
]


def asked(transaction_id: str) -> Message:
    return Message.of_half(
        Half(transaction_id, "g", "orders.placed", 1, None, b"", []), HalfId(0, 0)
    )


@pytest.fixture
def log() -> TransactionLog:
    return TransactionLog()


@pytest.fixture
def listener(engine: Engine, log: TransactionLog) -> SqlTransactionListener:
    return SqlTransactionListener(engine, log, lock_wait_seconds=0.2)


def test_what_committed_is_committed_and_what_did_not_is_rolled_back(
    engine: Engine, log: TransactionLog, listener: SqlTransactionListener
) -> None:
    with engine.begin() as connection:
        log.commit(connection, "committed")
    with engine.connect() as connection:
        log.commit(connection, "undone")
    assert listener.check_local_transaction(asked("committed")) is COMMIT
    assert listener.check_local_transaction(asked("undone")) is ROLLBACK
    assert listener.check_local_transaction(asked("never")) is ROLLBACK
    assert listener.check_local_transaction(asked("never")) is ROLLBACK


@pytest.mark.gate
def test_what_was_answered_with_rollback_can_not_commit_any_more(
    engine: Engine, log: TransactionLog, listener: SqlTransactionListener
) -> None:
    assert listener.check_local_transaction(asked("slow")) is ROLLBACK
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES ('lamp')"))
        log.commit(connection, "slow")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT * FROM orders")).all() == []
    assert listener.check_local_transaction(asked("slow")) is ROLLBACK


def test_ids_are_compared_byte_by_byte(
    engine: Engine, log: TransactionLog, listener: SqlTransactionListener
) -> None:
    with engine.begin() as connection:
        for transaction_id in ALIKE[::2]:
            log.commit(connection, transaction_id)
    answers = [listener.check_local_transaction(asked(one)) for one in ALIKE]
    assert answers == list(itertools.islice(itertools.cycle([COMMIT, ROLLBACK]), len(ALIKE)))


def test_the_log_takes_a_session(
    engine: Engine, log: TransactionLog, listener: SqlTransactionListener
) -> None:
    with Session(engine) as session, session.begin():
        log.commit(session, "kept")
    with Session(engine) as session:
        log.commit(session, "undone")
    assert listener.check_local_transaction(asked("kept")) is COMMIT
    assert listener.check_local_transaction(asked("undone")) is ROLLBACK


def test_a_check_gives_up_where_the_local_transaction_is_still_open(
    engine: Engine, log: TransactionLog, listener: SqlTransactionListener
) -> None:
    with engine.begin() as connection:
        log.commit(connection, "open")
        with pytest.raises(OperationalError):
            listener.check_local_transaction(asked("open"))
    assert listener.check_local_transaction(asked("open")) is COMMIT


def test_a_connection_waits_for_locks_as_before_once_it_has_answered(
    url: str, engine: Engine, log: TransactionLog
) -> None:
    one = create_engine(url, pool_size=1, max_overflow=0)
    limit = {
        "sqlite": "PRAGMA busy_timeout",
        "postgresql": "SHOW lock_timeout",
        "mysql": "SELECT @@innodb_lock_wait_timeout",
    }[engine.dialect.name]
    isolation = one.connect().get_isolation_level()

    def settings() -> tuple[object, str]:
        with one.connect() as connection:
            return connection.exec_driver_sql(limit).scalar_one(), connection.get_isolation_level()

    before = settings()
    listener = SqlTransactionListener(one, log, lock_wait_seconds=1)
    listener.check_local_transaction(asked("id"))
    assert settings() == before == (before[0], isolation)
    with engine.begin() as connection:
        log.commit(connection, "open")
        with pytest.raises(OperationalError):
            listener.check_local_transaction(asked("open"))
    assert settings() == before
    one.dispose()


@pytest.mark.parametrize("isolation", ["AUTOCOMMIT", "REPEATABLE READ", "SERIALIZABLE"])
def test_an_engines_isolation_level_changes_no_answer(
    url: str, engine: Engine, log: TransactionLog, isolation: str
) -> None:
    if engine.dialect.name == "sqlite" and isolation == "REPEATABLE READ":
        isolation = "READ UNCOMMITTED"  # it has no REPEATABLE READ
    other = create_engine(url, isolation_level=isolation)
    listener = SqlTransactionListener(other, log, lock_wait_seconds=0.2)
    with engine.begin() as connection:
        log.commit(connection, "id")
        with pytest.raises(OperationalError):
            listener.check_local_transaction(asked("id"))
    assert listener.check_local_transaction(asked("id")) is COMMIT
    assert listener.check_local_transaction(asked("none")) is ROLLBACK
    other.dispose()


@pytest.mark.gate
def test_a_connection_without_a_transaction_is_refused(
    url: str, engine: Engine, log: TransactionLog, listener: SqlTransactionListener
) -> None:
    other = create_engine(url, isolation_level="AUTOCOMMIT")
    with pytest.raises(TransactionLogError, match="autocommit"), other.begin() as connection:
        log.commit(connection, "id")
    other.dispose()
    assert listener.check_local_transaction(asked("id")) is ROLLBACK


@pytest.mark.parametrize("given", ["", "x" * 129, b"id", None, 7])
def test_what_is_no_transaction_id_is_refused(
    engine: Engine, log: TransactionLog, given: object
) -> None:
    with (
        pytest.raises(TransactionLogError, match="1 to 128 char"),
        engine.begin() as connection,
    ):
        log.commit(connection, given)  # type: ignore[call-overload]


def test_rows_go_when_they_are_old(engine: Engine, log: TransactionLog) -> None:
    days = {"old-1": 31, "old-2": 40, "young": 29, "new": 0}
    with engine.begin() as connection:
        for transaction_id in days:
            log.commit(connection, transaction_id)
        columns = log.table.c
        for transaction_id, age in days.items():
            stored = transaction_id.encode() if engine.dialect.name == "mysql" else transaction_id
            one = log.table.update().where(columns.transaction_id == stored)
            connection.execute(one.values(written_at=columns.written_at - age * 86_400))
    counts: list[int] = []
    while not counts or counts[-1]:
        with engine.begin() as connection:
            counts.append(log.prune(connection, timedelta(days=30), limit=1))
    assert counts == [1, 1, 0]
    with engine.connect() as connection:
        left = connection.execute(log.table.select()).all()
    assert {row.transaction_id for row in left} <= {"young", "new", b"young", b"new"}
    assert len(left) == 2
    assert abs(max(row.written_at for row in left) - time.time()) < 120


def test_rows_of_one_second_go_together(engine: Engine, log: TransactionLog) -> None:
    with engine.begin() as connection:
        for number in range(7):
            log.commit(connection, str(number))
        connection.execute(text("UPDATE transaction_log SET written_at = 1000"))
        assert log.prune(connection, SAFE_AGE, limit=3) == 7
        assert log.prune(connection, SAFE_AGE, limit=3) == 0


@pytest.mark.gate
def test_rows_that_may_be_asked_about_stay_unless_told(engine: Engine, log: TransactionLog) -> None:
    with engine.begin() as connection:
        log.commit(connection, "id")
    day = timedelta(days=1)
    with engine.begin() as connection:
        with pytest.raises(TransactionLogError, match="29 days, 23:59:59 may still be asked about"):
            log.prune(connection, SAFE_AGE - timedelta(seconds=1))
        assert log.prune(connection, day, safe_age=day) == 0
        assert log.prune(connection, -day, safe_age=-day) == 1


def test_the_ddl_makes_the_same_table(url: str, engine: Engine) -> None:
    other = TransactionLog("Migrated")
    with engine.begin() as connection:
        for statement in filter(str.strip, other.ddl(engine.dialect.name).split(";")):
            connection.exec_driver_sql(statement)

    def shape(name: str) -> object:
        inspected = inspect(engine)
        columns = [
            (column["name"], str(column["type"]), column["nullable"])
            for column in inspected.get_columns(name)
        ]
        indexes = [index["column_names"] for index in inspected.get_indexes(name)]
        return columns, indexes, inspected.get_pk_constraint(name)["constrained_columns"]

    assert shape("Migrated") == shape("transaction_log")
    with engine.begin() as connection:
        other.commit(connection, "id")
    assert SqlTransactionListener(engine, other).check_local_transaction(asked("id")) is COMMIT


def test_a_log_in_a_schema(postgresql: Server) -> None:
    engine = create_engine(postgresql.new_database())
    log = TransactionLog("log", schema="shop")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA shop")
        for statement in filter(str.strip, log.ddl("postgresql").split(";")):
            connection.exec_driver_sql(statement)
        log.commit(connection, "id")
    assert SqlTransactionListener(engine, log).check_local_transaction(asked("id")) is COMMIT
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM shop.log")).scalar_one() == 1
    engine.dispose()


def test_a_transaction_that_sees_an_older_state_gives_no_wrong_answer(
    url: str, engine: Engine, log: TransactionLog
) -> None:
    isolation = "SERIALIZABLE" if engine.dialect.name == "sqlite" else "REPEATABLE READ"
    other = create_engine(url, isolation_level=isolation)
    answer = None
    with other.connect() as connection:
        assert connection.execute(log.table.select()).all() == []
        with engine.begin() as meanwhile:
            log.commit(meanwhile, "id")
        with suppress(DBAPIError, TransactionLogError):
            answer = log.settle(connection, "id")
    assert answer in (None, COMMIT)
    other.dispose()


def test_the_table_may_be_one_of_the_application_s(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    log = TransactionLog("mine", metadata=Base.metadata)
    assert log.table is Base.metadata.tables["mine"]
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        log.commit(connection, "id")
    assert SqlTransactionListener(engine, log).check_local_transaction(asked("id")) is COMMIT


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "a.b", 'a"', "x" * 49, "é", "a\n"])
def test_a_name_that_would_need_care_is_refused(name: str) -> None:
    with pytest.raises(TransactionLogError, match="1 to 48 of a-z"):
        TransactionLog(name)
    with pytest.raises(TransactionLogError, match="1 to 48 of a-z"):
        TransactionLog(schema=name)


def test_another_database_is_refused() -> None:
    with pytest.raises(TransactionLogError, match=r"'oracle'; use one of postgresql, mysql"):
        TransactionLog().ddl("oracle")


def test_an_autocommit_of_sqlite3_itself_is_refused(tmp_path: Path) -> None:
    # Python 3.12 has a second way to ask for it; SQLAlchemy does not see that.
    given: dict[str, Any] = (
        {"isolation_level": None} if sys.version_info < (3, 12) else {"autocommit": True}
    )
    own = create_engine(f"sqlite:///{tmp_path / 'own.db'}", connect_args=given)
    log = TransactionLog()
    log.metadata.create_all(own)
    with pytest.raises(TransactionLogError, match="autocommit"), own.begin() as connection:
        log.commit(connection, "id")
    own.dispose()


def test_sqlite_with_begin_of_the_application_s_own(tmp_path: Path) -> None:
    """As SQLAlchemy's documentation has it: sqlite3 in autocommit, and BEGIN by an event."""
    own, log = create_engine(f"sqlite:///{tmp_path / 'own.db'}"), TransactionLog()
    event.listen(own, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
    event.listen(own, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    log.metadata.create_all(own)
    with own.begin() as connection:
        log.commit(connection, "id")
    listener = SqlTransactionListener(own, log)
    assert listener.check_local_transaction(asked("id")) is COMMIT
    assert listener.check_local_transaction(asked("none")) is ROLLBACK
    with own.connect() as connection:
        log.commit(connection, "undone")
    assert listener.check_local_transaction(asked("undone")) is ROLLBACK
    own.dispose()
