"""The demo's shop: its database, and the answers that its listener gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from resolver import Message, TransactionStatus
from resolver.demo.shop import (
    DATABASE,
    LOG,
    Content,
    Fate,
    Order,
    Orders,
    content_of,
    message_of,
    open_database,
    placed,
    random_order,
    write_order,
)
from resolver.protocol import Half, HalfId

COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
UNKNOWN = TransactionStatus.UNKNOWN
CONTENT = Content(None, b"\x00\xff", (("tag", b""), ("tag", None), ("tag", b"\x80")))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DATABASE, str(tmp_path / "orders.db"))
    return tmp_path / "orders.db"


def sent(transaction_id: str, content: Content = CONTENT) -> Message:
    """Return a message as the listener sees it."""
    headers = list(content.headers)
    half = Half(transaction_id, "shop", "orders.placed", 1, content.key, content.body, headers)
    return Message.of_half(half, HalfId(0, 0))


def order(fate: Fate) -> tuple[Order, Content]:
    return Order("ann", "lamp", 100, fate), CONTENT


@pytest.mark.parametrize(
    ("fate", "said", "answered", "is_placed"),
    [
        (Fate.PAID, COMMIT, COMMIT, True),
        (Fate.REFUSED, ROLLBACK, ROLLBACK, False),
        (Fate.PAID_SILENTLY, UNKNOWN, COMMIT, True),
        (Fate.REFUSED_SILENTLY, UNKNOWN, ROLLBACK, False),
        (Fate.NEVER_PAID, UNKNOWN, UNKNOWN, False),
    ],
)
def test_a_check_is_answered_as_the_local_transaction_ended(
    file: Path, fate: Fate, said: TransactionStatus, answered: TransactionStatus, is_placed: bool
) -> None:
    assert Orders().execute_local_transaction(sent("t"), order(fate)) is said
    assert Orders().check_local_transaction(sent("t")) is answered
    assert ("t" in placed(open_database(file))) is is_placed


def test_what_was_answered_as_rolled_back_can_not_commit_any_more(file: Path) -> None:
    """The local transaction of a process that was only slow, not dead."""
    assert Orders().check_local_transaction(sent("t")) is ROLLBACK
    assert Orders().execute_local_transaction(sent("t"), order(Fate.PAID)) is ROLLBACK
    assert placed(open_database(file)) == {}


def test_the_database_gives_messages_back_bit_for_bit(file: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - the same orders each time
    database = open_database(file)
    contents = {}
    for number in range(100):
        one = random_order(chance)
        contents[str(number)] = content_of(one, chance)
        with database.begin() as connection:
            LOG.commit(connection, str(number))
            write_order(connection, str(number), one, contents[str(number)])
    assert placed(database) == contents
    assert {content.key is None for content in contents.values()} == {True, False}


def test_the_message_is_the_content() -> None:
    message = message_of(CONTENT)
    assert (message.key, message.body, tuple(message.headers)) == CONTENT
