"""`TransactionProducer`: half, local transaction, op."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .halves import ROOM_SECONDS
from .listener import FOR_ALL, FOR_ONE, ask, check_listener, local_transaction
from .message import Message
from .producer_base import ProducerBase
from .transaction import Transaction, TransactionSendResult, ending_all

__all__ = ["TransactionProducer"]


class TransactionProducer(ProducerBase):
    """Sends messages that become visible exactly if a local transaction commits.

        with TransactionProducer("orders", "localhost:9092", OrderListener()) as producer:
            with producer.transaction(Message("orders.placed", b"...")) as tx:
                place_order(tx.transaction_id)      # commits; after an exception a check decides

    | argument | meaning |
    | --- | --- |
    | group | the producer group, whose live members answer each other's checks |
    | listener | answers checks; `send_message_in_transaction` also runs its local transaction |
    | checks_elsewhere | True: no agent here, another process answers the group's checks |
    | topic_prefix | what the protocol's topics begin with, as the resolver's setting |
    | send_timeout_ms | how long to wait for Kafka: at the start, and for a half |
    | op_max_bytes, op_linger_ms | how ops are packed |
    | end_hooks | called with each `TransactionEnd`, the application's and the check's |
    | kafka | librdkafka options, passed through, save those that are ours |
    | check_..., executor | the agent's, see `TransactionAgent` |

    Starting it asks Kafka for the topics: `SendError` when they or the brokers are not there.
    Threads may share one. Make it after a fork, in each process (gunicorn: `post_fork`).
    `timeout` (seconds) is always for the halves.
    """

    def _made(self) -> None:
        if self._listener is not None:
            check_listener(self._listener)
        self._open(self._listener)

    def __enter__(self) -> TransactionProducer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def send_message_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store the half, run the listener's local transaction with `arg`, send its op.

        Returns when the local transaction has; `timeout` (seconds) is for the half. Raises
        `MessageRefused` before anything is stored, `HalfNotAcknowledged` before the local
        transaction runs. What the local transaction raises is UNKNOWN, in the result's remark.
        """
        method = local_transaction(self._listener, FOR_ONE)
        with self.transaction(message, timeout) as tx:
            tx.end(ask(method, tx.message, arg))
        return tx.result()

    def send_messages_in_transaction(
        self, messages: Iterable[Message], arg: Any = None, timeout: float | None = None
    ) -> list[TransactionSendResult]:
        """Store all halves, run one local transaction for all of them, send their ops.

        Like `send_message_in_transaction` for the listener's `execute_local_transaction_for_all`:
        all messages are committed or none. A half that is refused or not acknowledged takes the
        others with it, before the local transaction runs.
        """
        method = local_transaction(self._listener, FOR_ALL)
        with self.transactions(messages, timeout) as begun:
            answer = ask(method, [tx.message for tx in begun], arg)
            for tx in begun:
                tx.end(answer)
        return [tx.result() for tx in begun]

    @contextmanager
    def transaction(self, message: Message, timeout: float | None = None) -> Iterator[Transaction]:
        """Store the half, run the block, commit; an exception leaves UNKNOWN and goes on.

        The local transaction has to be committed when the block ends. What raises may have
        committed all the same; a check finds out. `tx.rollback()` says at once that it has not.
        """
        transaction = self.begin(message, timeout)
        with ending_all([transaction]):
            yield transaction

    @contextmanager
    def transactions(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> Iterator[list[Transaction]]:
        """Like `transaction`, with many messages for one local transaction, sent together."""
        begun = self.begin_all(messages, timeout)
        with ending_all(begun):
            yield begun

    def begin(self, message: Message, timeout: float | None = None) -> Transaction:
        """Store the half and return its transaction, for the caller to end."""
        return self.begin_all([message], timeout)[0]

    def begin_all(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> list[Transaction]:
        """Store many halves, waiting once; one that fails takes the others with it."""
        deadline = self._deadline(timeout)
        # A bare lock is the cheapest thing to wait for; the last acknowledgement releases it.
        arrived = threading.Lock()
        arrived.acquire()
        sending = self._sending(messages, arrived.release)
        try:
            while not sending.hand_over(deadline):
                time.sleep(ROOM_SECONDS)
            arrived.acquire(timeout=max(0.0, deadline - time.monotonic()))
            return self._begun(sending)
        except BaseException:
            sending.abandon()
            raise

    def close(self, timeout: float = 30.0) -> None:
        """Let the agent finish, send what is left, wait for it; at most `timeout` seconds."""
        self._close(timeout)
