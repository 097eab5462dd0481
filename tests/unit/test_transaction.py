"""A transaction that two threads end at once."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

import pytest

from resolver import Message, Transaction, TransactionStatus
from resolver.ending import Ending
from resolver.ops import OpSender
from resolver.protocol import Half
from resolver.transaction import ending_all


class Overtaken:
    """A lock that another thread gets first, and rolls back."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> None:
        self._transaction._lock = Lock()
        self._transaction.rollback()

    def __exit__(self, *exception: object) -> None: ...


@pytest.fixture
def transaction() -> Iterator[Transaction]:
    connection: Any = None  # nothing is sent
    sender = OpSender(connection, "orders", "tx.op")
    half = Half("t", "orders", "orders.placed", 1, None, b"", [])
    yield Transaction(Ending(sender, "orders"), Message.of_half(half, 0, 17), 0, 17)
    sender.close(10)


def test_a_block_that_another_thread_ends_first_ends_as_that_said(
    transaction: Transaction,
) -> None:
    with ending_all([transaction]):
        overtaken: Any = Overtaken(transaction)
        transaction._lock = overtaken
    assert transaction.state is TransactionStatus.ROLLBACK_MESSAGE
