"""A transaction as the application holds it.

Next station: `op_publisher.py` publishes the end as an op.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager

from ..errors import SendError
from ..protocol import HalfId, TransactionStatus
from .commit_wait import CommitWait, end_of_wait, new_wait, not_acknowledged
from .fast import FastHalf
from .message import Message
from .op_publisher import OpPublisher
from .reported_state import ReportedState, unknown
from .send_result import TransactionSendResult

__all__ = ["Transaction"]

_COMMIT = ReportedState(TransactionStatus.COMMIT_MESSAGE)
_ROLLBACK = ReportedState(TransactionStatus.ROLLBACK_MESSAGE)


class Transaction:
    """A transaction whose half is stored: end it once, with `commit`, `rollback` or `unknown`.

    A producer makes it. Threads may share it.

    Example:
        ```python
        tx = producer.begin(Message("orders.placed", b"..."))
        if place_order(tx.transaction_id):  # commits in the database
            tx.commit()
        else:
            tx.rollback()
        ```
    """

    def __init__(
        self,
        publisher: OpPublisher,
        message: Message,
        half_id: HalfId,
        confirm: Callable[[Message], None] | None = None,
        fast: FastHalf | None = None,
        wait_seconds: float = 10.0,
    ) -> None:
        """Take a stored half; `confirm` raises where a commit must not be sent.

        `fast` is for a half that may be committed fast. Not part of the API.
        """
        #: The message that was sent, with its transaction id.
        self.message: Message = message
        #: Queue of the half.
        self.queue: int = half_id.queue
        #: Offset of the half in its queue.
        self.offset: int = half_id.offset
        self._half_id = half_id
        self._publisher = publisher
        self._confirm = confirm
        self._fast = fast
        self._wait_seconds = wait_seconds
        self._committed: CommitWait | None = None
        self._reported: ReportedState | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if self._reported is None:
            warnings.warn(
                f"transaction {self.transaction_id} for {self.message.topic} was begun and never "
                "ended, so a check has to end it: call commit(), rollback() or unknown(), or use "
                "`with producer.transaction(message) as tx:`",
                ResourceWarning,
                stacklevel=1,
                source=self,
            )

    def __repr__(self) -> str:
        state = self._reported.state.value if self._reported else "not ended"
        return f"<Transaction {self.transaction_id} at {self.message.half_offset}, {state}>"

    @property
    def transaction_id(self) -> str:
        """The transaction's name; write it down in the local transaction."""
        return self.message.transaction_id

    @property
    def state(self) -> TransactionStatus | None:
        """The state it was ended with; None before its end."""
        return self._reported.state if self._reported else None

    def commit(self, wait: bool = False) -> bool:
        """Make the message visible; returns at once, unless it waits or the producer verifies.

        With `wait` it returns when the commit is safe in Kafka. After a fast commit the message is
        visible then, or some milliseconds later. Otherwise the resolver's next batch delivers it.

        Args:
            wait: Whether to wait, for `send_timeout_ms` at most.

        Returns:
            Whether it was a fast commit. False without `wait`: nobody knows yet.

        Raises:
            SendError: If the transaction was ended with another state, or was committed before
                without `wait`.
            CommitNotAcknowledged: With `wait`, if Kafka does not acknowledge the commit in time.
            CommitNotConfirmed: With `verify`, if a check would not find the commit. The transaction
                is UNKNOWN then.
        """
        if self._confirm is not None and self._reported is None:
            with unknown_after_an_error([self]):
                self._confirm(self.message)
        if not wait:
            self.end(_COMMIT)
            return False
        try:
            return self._commit_to_wait_for().result(self._wait_seconds)
        except FutureTimeout:
            raise self._not_in_time() from None

    def rollback(self) -> None:
        """Drop the message; returns at once. The local transaction must be sure not to commit.

        Raises:
            SendError: If the transaction was ended with another state.
        """
        self.end(_ROLLBACK)

    def unknown(self, remark: str = "the application does not know yet") -> None:
        """Leave the end to a check; returns at once.

        Args:
            remark: Reason for people. The op carries its first 500 characters.

        Raises:
            SendError: If the transaction was ended with another state.
        """
        self.end(unknown(remark))

    def end(self, reported: ReportedState, committed: CommitWait | None = None) -> None:
        """End the transaction with a state, the application's or a listener's. Not part of the API.

        The same state again does nothing; another state raises `SendError`.
        """
        before = self.end_if_open(reported, committed)
        if before is not None and before.state is not reported.state:
            raise SendError(
                f"transaction {self.transaction_id} was ended with "
                f"{before.state.value} already; {reported.state.value} comes too late"
            )

    def end_if_open(
        self, reported: ReportedState, committed: CommitWait | None = None
    ) -> ReportedState | None:
        """End the transaction unless it was ended already; return the earlier end, of any thread.

        `committed` gets the result of a commit. Not part of the API.
        """
        with self._lock:
            before = self._reported
            if before is None:
                self._reported, self._committed = reported, committed
        if before is not None:
            return before
        if self._fast is not None:
            self._fast.end(reported, committed)
        else:
            on_stored = end_of_wait(self.message, committed)  # None: nobody waits
            self._publisher.end(self.message, self._half_id, reported, on_stored=on_stored)
        return None

    def result(self) -> TransactionSendResult:
        """Return the result; its state is UNKNOWN until the transaction is ended."""
        reported = self._reported or ReportedState(TransactionStatus.UNKNOWN)
        return TransactionSendResult(
            self.transaction_id,
            self.queue,
            self.offset,
            reported.state,
            self.message.topic,
            reported.remark,
        )

    def _commit_to_wait_for(self) -> CommitWait:
        """Commit, and return the wait for it; a second thread may wait too."""
        self.end(_COMMIT, new_wait())
        if self._committed is None:
            raise SendError(
                f"transaction {self.transaction_id} was committed already, and without wait: its "
                "acknowledgement can't be waited for any more",
                remedy="give wait=True to the first commit()",
            )
        return self._committed

    def _not_in_time(self) -> SendError:
        return not_acknowledged(self.message, f"no answer within {self._wait_seconds:g} s")


@contextmanager
def ending_all(transactions: Sequence[Transaction]) -> Iterator[None]:
    """End transactions that the block left open: commit on a normal exit, UNKNOWN on an exception.

    An exception may come while the database commits or just after, for example when the reply to
    its COMMIT is lost. Only a check can then find the outcome.
    """
    with unknown_after_an_error(transactions):
        yield
    _end_open(transactions, _COMMIT)


@contextmanager
def unknown_after_an_error(transactions: Sequence[Transaction]) -> Iterator[None]:
    """End transactions that are open as UNKNOWN if the block raises."""
    try:
        yield
    except BaseException as error:
        _end_open(transactions, unknown(f"the block raised {type(error).__name__}"))
        raise


def end_unless_commit(transactions: Sequence[Transaction], reported: ReportedState) -> None:
    """End transactions whose local transaction did not commit; `ending_all` commits the others."""
    if reported.state is not TransactionStatus.COMMIT_MESSAGE:
        for transaction in transactions:
            transaction.end(reported)


def open_ones(transactions: Iterable[Transaction]) -> list[Transaction]:
    """Return the transactions that are not ended yet."""
    return [transaction for transaction in transactions if transaction.state is None]


def _end_open(transactions: Sequence[Transaction], reported: ReportedState) -> None:
    for transaction in transactions:
        transaction.end_if_open(reported)
