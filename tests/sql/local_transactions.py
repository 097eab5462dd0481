"""Local transactions for the contract: a good one, and one for each mistake.

Each makes its engine itself: it also runs in a process that is spawned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.pool import NullPool

from resolver import Message, TransactionListener, TransactionStatus
from resolver.sql import TransactionLog

LOG = TransactionLog()
BeforeCommit = Callable[[], None]


def good(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    with begun(url) as connection:
        LOG.commit(connection, transaction_id)
        order(connection)
        before_commit()


def hooked(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    """Leave the application's own function as it is: its engine calls before each commit."""
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "commit", lambda _connection: before_commit())
    place(engine, transaction_id)


def without_id(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    with begun(url) as connection:
        order(connection)
        before_commit()


def id_before(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    with begun(url) as connection:
        LOG.commit(connection, transaction_id)
    without_id(url, transaction_id, before_commit)


def id_after(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    without_id(url, transaction_id, before_commit)
    with begun(url) as connection:
        LOG.commit(connection, transaction_id)


_left_open: list[Connection] = []


def committed_outside(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    """Return before the commit, as a block does that is inside the database's."""
    connection = create_engine(url, poolclass=NullPool).connect()
    LOG.commit(connection, transaction_id)
    order(connection)
    before_commit()
    _left_open.append(connection)


def close_left_open() -> None:
    while _left_open:
        _left_open.pop().close()


def never_calls(url: str, transaction_id: str, before_commit: BeforeCommit) -> None:
    good(url, transaction_id, lambda: None)


class OnlyLooks(TransactionListener):
    """Has no barrier."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        look = text("SELECT committed FROM transaction_log WHERE transaction_id = :id")
        with self.engine.connect() as connection:
            found = connection.execute(look, {"id": message.transaction_id}).scalar()
        return TransactionStatus.COMMIT_MESSAGE if found else TransactionStatus.ROLLBACK_MESSAGE


class Fails(TransactionListener):
    def check_local_transaction(self, message: Message) -> Any:
        raise KeyError("orders")


def place(engine: Engine, transaction_id: str) -> None:
    with engine.begin() as connection:
        LOG.commit(connection, transaction_id)
        order(connection)


def order(connection: Connection) -> None:
    connection.execute(text("INSERT INTO orders VALUES ('lamp')"))


def orders(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM orders")).scalar_one())


@contextmanager
def begun(url: str) -> Iterator[Connection]:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        yield connection
