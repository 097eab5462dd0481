"""One transaction in the application's hands, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .ending import Ending
from .errors import SendError
from .listener import Answer, unknown
from .message import Message
from .protocol import TransactionStatus

__all__ = ["Transaction", "TransactionSendResult"]

_COMMIT = Answer(TransactionStatus.COMMIT_MESSAGE)
_ROLLBACK = Answer(TransactionStatus.ROLLBACK_MESSAGE)


@dataclass(frozen=True, slots=True)
class TransactionSendResult:
    """What became of a transaction; `queue` and `offset` are those of its half.

    The state is what the local transaction said: the resolver decides, and the first end wins.
    """

    transaction_id: str
    queue: int
    offset: int
    local_transaction_state: TransactionStatus
    topic: str
    remark: str | None = None

    @property
    def half_offset(self) -> str:
        """`queue:offset`, which identifies the transaction everywhere."""
        return f"{self.queue}:{self.offset}"


class Transaction:
    """A transaction whose half is stored: end it once, with `commit`, `rollback` or `unknown`.

    `message` is what was sent, with its transaction id. `state` is None until it is ended.
    """

    def __init__(self, ending: Ending, message: Message, queue: int, offset: int) -> None:
        self.message = message
        self.queue = queue
        self.offset = offset
        self._ending = ending
        self._answer: Answer | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        state = self._answer.state.value if self._answer else "not ended"
        return f"<Transaction {self.transaction_id} at {self.message.half_offset}, {state}>"

    @property
    def transaction_id(self) -> str:
        return self.message.transaction_id

    @property
    def state(self) -> TransactionStatus | None:
        return self._answer.state if self._answer else None

    def commit(self) -> None:
        """Make the message visible; returns at once."""
        self.end(_COMMIT)

    def rollback(self) -> None:
        """Drop the message, where the local transaction is sure not to commit; returns at once."""
        self.end(_ROLLBACK)

    def unknown(self, remark: str = "the application does not know yet") -> None:
        """Leave the end to a check."""
        self.end(unknown(remark))

    def end(self, answer: Answer) -> None:
        """End it; again with the same state does nothing, with another raises `SendError`."""
        before = self.end_if_open(answer)
        if before is not None and before.state is not answer.state:
            raise SendError(
                f"transaction {self.transaction_id} was ended with "
                f"{before.state.value} already; {answer.state.value} comes too late"
            )

    def end_if_open(self, answer: Answer) -> Answer | None:
        """End it unless that was done already, by another thread too; return with what it was."""
        with self._lock:
            before = self._answer
            if before is None:
                self._answer = answer
        if before is None:
            self._ending.end(self.message, self.queue, self.offset, answer)
        return before

    def result(self) -> TransactionSendResult:
        """Return the result; UNKNOWN while it is not ended."""
        answer = self._answer or Answer(TransactionStatus.UNKNOWN)
        return TransactionSendResult(
            self.transaction_id,
            self.queue,
            self.offset,
            answer.state,
            self.message.topic,
            answer.remark,
        )


@contextmanager
def ending_all(transactions: Sequence[Transaction]) -> Iterator[None]:
    """End what was not ended inside: commit on a normal exit, UNKNOWN on an exception.

    Whatever it is may come while the database commits or just after, as where the reply to its
    COMMIT is lost: nobody here knows, the check does.
    """
    try:
        yield
    except BaseException as error:
        _end_open(transactions, unknown(f"the block raised {type(error).__name__}"))
        raise
    _end_open(transactions, _COMMIT)


def _end_open(transactions: Sequence[Transaction], answer: Answer) -> None:
    for transaction in transactions:
        transaction.end_if_open(answer)
