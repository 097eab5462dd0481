"""The shop's database: orders, and the log of the transactions that placed them, in SQLite."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path

import orjson

from .orders import Content, Order

_BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS transaction_log (transaction_id TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
    transaction_id TEXT PRIMARY KEY REFERENCES transaction_log, placed_at REAL NOT NULL,
    customer TEXT NOT NULL, item TEXT NOT NULL, cents INTEGER NOT NULL,
    message_key BLOB, message_body BLOB, message_headers TEXT NOT NULL
);
"""


class State(str, Enum):
    """What the transaction log says of a transaction."""

    PLACED = "PLACED"
    AWAITS_PAYMENT = "AWAITS_PAYMENT"
    ROLLED_BACK = "ROLLED_BACK"


class OrderDatabase:
    """Any number of threads and processes may use one file; a kill -9 leaves it consistent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_thread = threading.local()
        self._turn = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection().executescript(_SCHEMA)

    @contextmanager
    def local_transaction(
        self, transaction_id: str, order: Order, content: Content
    ) -> Iterator[None]:
        """Place an order and log its transaction when the block ends; an exception undoes both.

        Raises `sqlite3.IntegrityError` where a check was answered ROLLBACK meanwhile.
        """
        row = (transaction_id, time.time(), order.customer, order.item, order.cents)
        message = (content.key, content.body, _write_headers(content))
        with self._writing() as database:
            _log(database, transaction_id, State.PLACED)
            database.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row + message)
            yield

    def await_payment(self, transaction_id: str) -> None:
        """Note that the order's fate is open."""
        with self._writing() as database:
            _log(database, transaction_id, State.AWAITS_PAYMENT)

    def settle(self, transaction_id: str) -> State:
        """Return what became of a transaction; one without a trace is rolled back here and now.

        Writing that down makes the answer true: a local transaction that still runs, in a process
        that was only slow, can't commit any more.
        """
        state = self._state(transaction_id)
        if state is None:
            with self._writing() as database:
                added = "INSERT OR IGNORE INTO transaction_log VALUES (?, ?)"
                database.execute(added, (transaction_id, State.ROLLED_BACK.value))
            state = self._state(transaction_id)
        return State.ROLLED_BACK if state is None else state

    def placed(self) -> dict[str, Content]:
        """Return the message of each order whose local transaction committed, by transaction."""
        rows = self._connection().execute(
            "SELECT transaction_id, message_key, message_body, message_headers FROM orders"
        )
        return {
            str(transaction_id): Content(key, body, _read_headers(headers))
            for transaction_id, key, body, headers in rows
        }

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._of_thread, "connection", None)
        if connection is not None:
            connection.close()
            del self._of_thread.connection

    def _state(self, transaction_id: str) -> State | None:
        query = "SELECT state FROM transaction_log WHERE transaction_id = ?"
        row = self._connection().execute(query, (transaction_id,)).fetchone()
        return None if row is None else State(row[0])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        # Threads take turns by the lock, processes by IMMEDIATE: SQLite's own waiting is polling.
        with self._turn:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._of_thread, "connection"):
            opened = sqlite3.connect(self._path, _BUSY_SECONDS, isolation_level=None)
            # Readers don't wait for a writer, and a commit not for the disk: a killed process
            # loses nothing, only a power cut would.
            with closing(opened.execute("PRAGMA journal_mode = WAL")):
                opened.execute("PRAGMA synchronous = NORMAL")
            self._of_thread.connection = opened
        connection: sqlite3.Connection = self._of_thread.connection
        return connection


def _log(database: sqlite3.Connection, transaction_id: str, state: State) -> None:
    database.execute("INSERT INTO transaction_log VALUES (?, ?)", (transaction_id, state.value))


def _write_headers(content: Content) -> str:
    pairs = [[name, None if value is None else value.hex()] for name, value in content.headers]
    return orjson.dumps(pairs).decode()


def _read_headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    pairs: list[tuple[str, str | None]] = orjson.loads(text)
    return tuple((name, None if value is None else bytes.fromhex(value)) for name, value in pairs)
