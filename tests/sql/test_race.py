"""Checks are asked while the application is stopped between any two of its steps.

Whatever the order, no answer may contradict the database: neither ROLLBACK where the local
transaction committed, nor COMMIT where it did not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import combinations_with_replacement
from typing import NamedTuple

from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from resolver import Message, TransactionStatus
from resolver.protocol import Half, HalfId
from resolver.sql import SqlTransactionListener, TransactionLog
from tests.support.patience import PATIENCE_SECONDS

from .stopped import Applications

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
#: None: no answer.
Answer = TransactionStatus | None
_LOCK_WAIT_SECONDS = 0.1


class Interleaving(NamedTuple):
    """The application's steps, and before which of them each check begins and has ended."""

    steps: tuple[str, ...]
    checks: tuple[tuple[int, int], ...]


def interleavings() -> Iterator[Interleaving]:
    """Yield two checks at and across all places where it commits, one where it does not."""
    places = list(combinations_with_replacement(range(4), 2))
    for steps in (("log", "order", "commit"), ("order", "log", "commit")):
        for both in combinations_with_replacement(places, 2):
            yield Interleaving(steps, both)
    for steps in (("log", "order", "rollback"), ("log", "order", "kill")):
        for one in places:
            yield Interleaving(steps, (one,))


class Stage:
    """One database, the applications that write to it, and the listener that answers from it."""

    def __init__(self, applications: Applications, engine: Engine) -> None:
        self._applications, self._engine = applications, engine
        self._log = TransactionLog()

    def play(self, interleaving: Interleaving) -> tuple[set[Answer], bool]:
        """Return what was answered, and whether the order was placed."""
        transaction_id = str(uuid.uuid4())
        answers = self._answers(interleaving, transaction_id)
        answers.add(self._ask(transaction_id, PATIENCE_SECONDS))
        query = text("SELECT count(*) FROM orders WHERE item = :id")
        with self._engine.connect() as connection:
            placed = connection.execute(query, {"id": transaction_id}).scalar_one() == 1
        return answers, placed

    def _answers(self, interleaving: Interleaving, transaction_id: str) -> set[Answer]:
        steps, checks = interleaving
        asked: list[tuple[int, Future[Answer]]] = []
        with ThreadPoolExecutor(len(checks)) as pool, self._applications.one() as application:
            for place in range(len(steps) + 1):
                for begin, end in checks:
                    if begin == place:
                        asked.append((end, pool.submit(self._ask, transaction_id)))
                for end, check in asked:
                    if end == place:
                        check.result(PATIENCE_SECONDS)
                if place < len(steps):
                    application.do(steps[place], transaction_id)
            return {check.result(PATIENCE_SECONDS) for _, check in asked}

    def _ask(self, transaction_id: str, seconds: float = _LOCK_WAIT_SECONDS) -> Answer:
        half = Half(transaction_id, "g", "orders.placed", 1, None, b"", [])
        listener = SqlTransactionListener(self._engine, self._log, lock_wait_seconds=seconds)
        try:
            return listener.check_local_transaction(Message.of_half(half, HalfId(0, 0)))
        except OperationalError:
            return None


def test_in_no_interleaving_does_an_answer_contradict_the_database(
    url: str, engine: Engine
) -> None:
    all_answers: set[Answer] = set()
    # SQLite has one lock for all: one play at a time. In the others they wait together.
    at_once = 1 if engine.dialect.name == "sqlite" else 8
    listed = list(interleavings())
    with closing(Applications(url)) as applications, ThreadPoolExecutor(at_once) as pool:
        played = pool.map(Stage(applications, engine).play, listed)
        for interleaving, (answers, placed) in zip(listed, played, strict=True):
            assert answers - {None} == {COMMIT if placed else ROLLBACK}, interleaving
            all_answers |= answers
    assert all_answers == {COMMIT, ROLLBACK, None}
