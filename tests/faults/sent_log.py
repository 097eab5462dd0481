"""What the load knows: what it sent, what Kafka acknowledged, what it decided; in SQLite.

It shares nothing with the resolver. Rows are only added, in the order of their numbers. Each is
safe from a kill -9 of any process before the next thing is done.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

_BUSY_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sent
    (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, fate TEXT NOT NULL, content BLOB,
     partition INTEGER);
CREATE TABLE IF NOT EXISTS stored
    (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, half TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS decided
    (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, outcome TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS committed
    (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, ordering BLOB NOT NULL);
"""

COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"

Headers = Iterable[tuple[str, bytes | None]]


class Sent(NamedTuple):
    """A message that was about to be sent.

    `content` is its digest, `partition` where it belongs in its topic; None: anywhere.
    """

    name: str
    fate: str
    content: bytes
    partition: int | None


class Stored(NamedTuple):
    """A half that Kafka acknowledged, as `queue:offset`, and when the load knew (seconds)."""

    name: str
    half: str
    known_at: float


class Decided(NamedTuple):
    """What the local transaction came to."""

    name: str
    outcome: str


class Committed(NamedTuple):
    """A message of an ordering key whose commit is about to be handed over.

    The next message of the key is written down only when this commit was handed over.
    """

    name: str
    ordering: bytes


class SentLog:
    """Written by the load and its agent, read by the judge; any number of threads each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_thread = threading.local()
        self._turn = threading.Lock()
        self._connection().executescript(_SCHEMA)

    def sent(self, sent: Sent) -> None:
        statement = "INSERT INTO sent (name, fate, content, partition) VALUES (?, ?, ?, ?)"
        self._add(statement, sent)

    def committed(self, name: str, ordering: bytes) -> None:
        self._add("INSERT INTO committed (name, ordering) VALUES (?, ?)", (name, ordering))

    def stored(self, name: str, half: str) -> None:
        stored = Stored(name, half, time.time())
        self._add("INSERT INTO stored (name, half, at) VALUES (?, ?, ?)", stored)

    def decide(self, name: str, outcome: str) -> str:
        """Decide a transaction unless that was done, as by a check; return what it came to."""
        self._add("INSERT OR IGNORE INTO decided (name, outcome) VALUES (?, ?)", (name, outcome))
        query = "SELECT outcome FROM decided WHERE name = ?"
        return str(self._connection().execute(query, (name,)).fetchone()[0])

    def fate(self, name: str) -> str | None:
        row = self._connection().execute("SELECT fate FROM sent WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def count(self, fate: str) -> int:
        """Return how many messages of a fate were sent, or about to be."""
        query = "SELECT count(*) FROM sent WHERE fate = ?"
        return int(self._connection().execute(query, (fate,)).fetchone()[0])

    def count_committed(self) -> int:
        """Return how many messages of an ordering key were committed, or about to be."""
        query = "SELECT count(*) FROM committed"
        return int(self._connection().execute(query).fetchone()[0])

    def sent_after(self, number: int) -> list[tuple[int, Sent]]:
        rows = self._after("SELECT number, name, fate, content, partition FROM sent", number)
        return [(number, Sent(*row)) for number, *row in rows]

    def stored_after(self, number: int) -> list[tuple[int, Stored]]:
        rows = self._after("SELECT number, name, half, at FROM stored", number)
        return [(number, Stored(*row)) for number, *row in rows]

    def decided_after(self, number: int) -> list[tuple[int, Decided]]:
        rows = self._after("SELECT number, name, outcome FROM decided", number)
        return [(number, Decided(*row)) for number, *row in rows]

    def committed_after(self, number: int) -> list[tuple[int, Committed]]:
        rows = self._after("SELECT number, name, ordering FROM committed", number)
        return [(number, Committed(*row)) for number, *row in rows]

    def _after(self, query: str, number: int) -> list[Any]:
        cursor = self._connection().execute(f"{query} WHERE number > ? ORDER BY number", (number,))
        return cursor.fetchall()

    def _add(self, statement: str, row: tuple[object, ...]) -> None:
        with self._turn:  # threads by the lock, processes by SQLite's, which is polling
            self._connection().execute(statement, row)

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._of_thread, "connection"):
            opened = sqlite3.connect(self._path, _BUSY_SECONDS, isolation_level=None)
            # What is committed is with the system: a killed process loses none of it.
            opened.execute("PRAGMA journal_mode = WAL")
            opened.execute("PRAGMA synchronous = NORMAL")
            self._of_thread.connection = opened
        connection: sqlite3.Connection = self._of_thread.connection
        return connection


def digest(topic: str, key: bytes | None, body: bytes | None, headers: Headers) -> bytes:
    """Return a digest of all that has to arrive bit for bit."""
    return sha256(repr((topic, key, body, list(headers))).encode()).digest()
