"""A transaction that two threads end at once, that nobody ends, and that is waited for."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

import pytest

from resolver import (
    AsyncTransaction,
    CommitNotAcknowledged,
    Message,
    Transaction,
    TransactionStatus,
)
from resolver.producer.op_publisher import OpPublisher
from resolver.producer.transaction import ending_all
from resolver.protocol import Half, HalfId
from tests.support.patience import PATIENCE_SECONDS


class Overtaken:
    """A lock that another thread gets first, and rolls back."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> None:
        self._transaction._lock = Lock()
        self._transaction.rollback()

    def __exit__(self, *exception: object) -> None: ...


@pytest.fixture
def sender() -> Iterator[OpPublisher]:
    connection: Any = None  # nothing is sent
    sender = OpPublisher(connection, "orders", "tx.op")
    yield sender
    sender.close(10)


@pytest.fixture
def transaction(sender: OpPublisher) -> Transaction:
    return begun(sender)


def begun(sender: OpPublisher) -> Transaction:
    half = Half("t-1", "orders", "orders.placed", 1, None, b"", [])
    half_id = HalfId(0, 17)
    return Transaction(sender, Message.of_half(half, half_id), half_id)


def test_a_block_that_another_thread_ends_first_ends_as_that_said(
    transaction: Transaction,
) -> None:
    with ending_all([transaction]):
        overtaken: Any = Overtaken(transaction)
        transaction._lock = overtaken
    assert transaction.state is TransactionStatus.ROLLBACK_MESSAGE


def test_a_transaction_that_is_dropped_without_an_end_is_warned_of(sender: OpPublisher) -> None:
    transactions = [begun(sender)]
    with pytest.warns(ResourceWarning, match="t-1 for orders.placed was begun and never ended"):
        transactions.clear()


@pytest.mark.parametrize("end", ["commit", "rollback", "unknown"])
def test_a_transaction_that_was_ended_is_not_warned_of(sender: OpPublisher, end: str) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        getattr(begun(sender), end)()
        gc.collect()
    assert [one for one in warned if "never ended" in str(one.message)] == []


class Connection:
    """Takes ops, and acknowledges them as a test says: with an error, with none, or never."""

    def __init__(self, *answers: object) -> None:
        self._answers = answers

    def produce(self, record: object, on_delivery: Callable[[object, object], None]) -> None:
        for answer in self._answers:
            on_delivery(answer, None)


class Waits:
    """Begins transactions whose commits are waited for: not long where no answer comes."""

    def __init__(self, *answers: object) -> None:
        self._seconds = PATIENCE_SECONDS if answers else 0.3
        connection: Any = Connection(*answers)
        self.publisher = OpPublisher(connection, "orders", "tx.op", op_linger_ms=0)
        half = Half("t-1", "orders", "orders.placed", 1, None, b"", [])
        self._half_id = HalfId(0, 17)
        self._message = Message.of_half(half, self._half_id)
        self.verified: list[Sequence[Transaction]] = []

    def begin(self) -> Transaction:
        return Transaction(self.publisher, self._message, self._half_id, None, None, self._seconds)

    def begin_async(self) -> AsyncTransaction:
        return AsyncTransaction(
            self._verify, self.publisher, self._message, self._half_id, None, None, self._seconds
        )

    async def _verify(self, transactions: Sequence[Transaction]) -> None:
        self.verified.append(transactions)


def test_a_wait_returns_when_the_op_is_stored_and_says_that_nothing_is_visible_yet() -> None:
    assert Waits(None).begin().commit(wait=True) is False
    assert asyncio.run(waited(Waits(None).begin_async())) is False


@pytest.mark.parametrize(
    ("answers", "why"), [((), "no answer within 0.3 s"), (("disk full",), "disk full")]
)
def test_a_commit_that_is_not_acknowledged_is_an_error_of_who_waits(
    answers: tuple[object, ...], why: str
) -> None:
    tx = Waits(*answers).begin()
    with pytest.raises(CommitNotAcknowledged, match=f"commit of transaction t-1 .*{why}"):
        tx.commit(wait=True)
    assert tx.state is TransactionStatus.COMMIT_MESSAGE
    with pytest.raises(CommitNotAcknowledged, match=why):
        asyncio.run(waited(Waits(*answers).begin_async()))


async def waited(tx: AsyncTransaction) -> bool:
    return await tx.commit(wait=True)


def test_a_wait_in_asyncio_verifies_and_commits_when_it_is_awaited() -> None:
    async def run() -> None:
        waits = Waits(None)
        tx = waits.begin_async()
        committing = tx.commit(wait=True)
        assert (tx.state, waits.verified) == (None, [])
        assert await committing is False
        assert (tx.state, waits.verified) == (TransactionStatus.COMMIT_MESSAGE, [[tx]])
        assert await tx.commit(wait=True) is False
        assert len(waits.verified) == 1

    asyncio.run(run())


def test_a_wait_that_is_cancelled_leaves_the_commit_as_it_is() -> None:
    async def run() -> None:
        tx = Waits().begin_async()
        task = asyncio.ensure_future(tx.commit(wait=True))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tx.state is TransactionStatus.COMMIT_MESSAGE

    asyncio.run(run())
