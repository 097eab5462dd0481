"""`TransactionProducer`: half, local transaction, op.

The way of a message begins here. Next stations: `transaction_factory.py` makes its
half, and `half_sender.py` stores the half. `reported_state.py` has `call_listener`, which runs the
local transaction. Then `transaction.py` ends the transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any

from .half_sender import ROOM_SECONDS
from .listener import FOR_ALL, FOR_ONE, check_listener, local_transaction_method
from .message import Message
from .producer_base import ProducerBase
from .reported_state import call_listener
from .send_result import TransactionSendResult
from .transaction import Transaction, end_unless_commit, ending_all, open_ones

__all__ = ["TransactionProducer"]


class TransactionProducer(ProducerBase):
    """Sends messages that become visible exactly if a local transaction commits.

    Making a producer asks Kafka for the topics and connects, unless it is `lazy`. Threads may share
    a producer. A fork may not: make the producer after the fork, in each process (gunicorn:
    `post_fork`).

    Args:
        group: Producer group. Its live members answer each other's checks.
        bootstrap_servers: Kafka's brokers, such as `kafka1:9092,kafka2:9092`.
        listener: Answers checks. `send_message_in_transaction` and `send_messages_in_transaction`
            run its local transaction too. None is allowed only with `checks_elsewhere`.
        checks_elsewhere: True: no agent runs here, another process answers the group's checks.
        connect: "eager": the start asks Kafka, and raises if no broker answers. "lazy": the start
            does not wait for Kafka; a thread connects when brokers are there. Until then a send
            waits for `send_timeout_ms`, then raises `SendError` with nothing stored.
        topic_prefix: Beginning of the protocol's topic names, as in the resolver's setting.
        send_timeout_ms: Time in ms to wait for Kafka, at the start and for a half.
        check_real_topics: True: Kafka is asked about each message's topic, so that a message that
            does not fit it is refused before anything is stored. False: nothing is asked; a commit
            that does not fit ends as UNDELIVERABLE.
        real_topic_cache_ms: Time in ms for which a topic is taken to be as it was. Before a message
            is refused, Kafka is asked again.
        op_max_bytes: Size in bytes at which an op that packs several ends is sent.
        op_linger_ms: Longest wait in ms of an end for others to be packed with.
        end_hooks: Functions that are called with each `TransactionEnd`, of the application and of
            the agent.
        kafka: Options of librdkafka, passed through. Options that the protocol sets are refused.
        check_thread_pool_min_size: Threads of the agent that stay when they are idle.
        check_thread_pool_max_size: Most threads of the agent that ask the listener.
        check_request_hold_max: Most checks that the agent holds. At this number it fetches no more.
        check_timeout_ms: Time in ms that the listener may take to answer a check.
        executor: Runs the listener's checks instead of the agent's own threads.
        verify: True: before a commit is sent, the listener is asked as a check would ask it. Unless
            it says COMMIT, `CommitNotConfirmed` is raised, and the end is UNKNOWN. None: True if
            the environment has `TXRESOLVER_VERIFY=1`. For tests: it asks the database once more.
        fast: True: commits become visible by Kafka transactions of this producer's own, within
            milliseconds (docs/fast.md says when that pays). The group needs Write on its topics,
            and on transactional ids that begin with `tx.fast:<group>:`.
        fast_linger_ms: Least time in ms from the beginning of one of these Kafka transactions to
            the next. Commits that come meanwhile share the next one.
        fast_immunity_ms: The resolver's `transaction_timeout_ms`, by which a local transaction is
            too slow for a fast commit.

    Attributes:
        group: The producer group.
        agent: The agent that answers checks. None with `checks_elsewhere`.

    Raises:
        SettingsError: If an argument or an option is illegal.
        ListenerError: If the listener is missing or unusable.
        SendError: If the brokers do not answer in time, or the topics are missing. With `lazy` each
            send raises it.

    Example:
        ```python
        with TransactionProducer("orders", "localhost:9092", OrderListener()) as producer:
            with producer.transaction(Message("orders.placed", b"...")) as tx:
                place_order(tx.transaction_id)  # commits in the database
        ```
    """

    def _made(self) -> None:
        if self._listener is not None:
            check_listener(self._listener)
        self._open(self._listener)

    def __enter__(self) -> TransactionProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_message_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store the half, run the listener's local transaction, and have its op sent.

        Returns when the local transaction has returned. If it raises, the state is UNKNOWN and the
        result's remark names the exception.

        Args:
            message: The message.
            arg: Passed on to the listener's `execute_local_transaction`.
            timeout: Time in seconds to wait for the half. None: `send_timeout_ms`.

        Returns:
            The transaction id, the half's position and the reported state.

        Raises:
            MessageRefused: Before anything is stored.
            HalfNotAcknowledged: Before the local transaction runs.
            CommitNotConfirmed: With `verify`, if a check would not find the commit.
            ListenerError: If the listener has no `execute_local_transaction`.
            SendError: If the producer is closed, or was made before a fork.
        """
        method = local_transaction_method(self._listener, FOR_ONE)
        with self.transaction(message, timeout) as tx:  # the end of this block sends a commit
            reported = call_listener(method, tx.message, arg)  # the local transaction runs
            end_unless_commit([tx], reported)
        return tx.result()

    def send_messages_in_transaction(
        self, messages: Iterable[Message], arg: Any = None, timeout: float | None = None
    ) -> list[TransactionSendResult]:
        """Store all halves, run one local transaction for all of them, and have their ops sent.

        The listener's `execute_local_transaction_for_all` runs it. All messages are committed, or
        none.

        Args:
            messages: The messages.
            arg: Passed on to the listener's method.
            timeout: Time in seconds to wait for all halves. None: `send_timeout_ms`.

        Returns:
            A result for each message, in their order.

        Raises:
            MessageRefused: If a message is refused. No message is stored.
            HalfNotAcknowledged: If a half is not acknowledged. The local transaction does not run.
                The other halves are rolled back.
            ListenerError: If the listener has no `execute_local_transaction_for_all`.
            SendError: If the producer is closed, or was made before a fork.
        """
        method = local_transaction_method(self._listener, FOR_ALL)
        with self.transactions(messages, timeout) as begun:
            reported = call_listener(method, [tx.message for tx in begun], arg)
            end_unless_commit(begun, reported)
        return [tx.result() for tx in begun]

    @contextmanager
    def transaction(self, message: Message, timeout: float | None = None) -> Iterator[Transaction]:
        """Store the half, run the block, commit; after an exception send UNKNOWN and raise it on.

        Commit the local transaction before the block ends. A block that raises may have committed
        it all the same: a check finds out. `tx.rollback()` says at once that it has not.

        Args:
            message: The message.
            timeout: Time in seconds to wait for the half. None: `send_timeout_ms`.

        Raises:
            MessageRefused: Before anything is stored.
            HalfNotAcknowledged: Before the block runs.
            CommitNotConfirmed: With `verify`, if a check would not find the commit.
            SendError: If the producer is closed, or was made before a fork.
        """
        transaction = self.begin(message, timeout)
        with ending_all([transaction]):
            yield transaction
            self._verify_commits([transaction])

    @contextmanager
    def transactions(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> Iterator[list[Transaction]]:
        """Do the same as `transaction` with many messages and one local transaction.

        The halves are sent together. Arguments and errors are the same as in `begin_all`.
        """
        begun = self.begin_all(messages, timeout)
        with ending_all(begun):
            yield begun
            self._verify_commits(begun)

    def begin(self, message: Message, timeout: float | None = None) -> Transaction:
        """Store the half and return its transaction, which the caller ends.

        Arguments and errors are the same as in `transaction`.
        """
        return self.begin_all([message], timeout)[0]

    def begin_all(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> list[Transaction]:
        """Store many halves, wait once, and return their transactions, which the caller ends.

        Args:
            messages: The messages.
            timeout: Time in seconds to wait for all halves. None: `send_timeout_ms`.

        Raises:
            MessageRefused: If a message is refused. No message is stored.
            HalfNotAcknowledged: If a half is not acknowledged. The other halves are rolled back.
            SendError: If the producer is closed, or was made before a fork.
        """
        deadline = self._deadline(timeout)
        for opened, seconds in self._unopened(deadline):
            wait([opened], seconds)
        prepared = self._factory.prepare(messages)
        for asked, seconds in self._factory.topic_questions(prepared, deadline):
            wait([asked], seconds)
        # Wait on a bare lock, the cheapest kind. The last acknowledgement releases it.
        arrived = threading.Lock()
        arrived.acquire()
        sending = self._factory.new_sending(prepared, arrived.release)
        try:
            while not sending.send_rest(deadline):
                time.sleep(ROOM_SECONDS)
            arrived.acquire(timeout=max(0.0, deadline - time.monotonic()))
            confirm = None if self._verifier is None else self._confirm_by_hand
            # Each half is stored, or this raises. The op will name the half by its offset.
            return self._factory.transactions(sending, Transaction, confirm)
        except BaseException:
            sending.abandon()
            raise

    def _verify_commits(self, transactions: Iterable[Transaction]) -> None:
        """Verify the commits that the end of a block is about to send."""
        if self._verifier is not None:
            for transaction in open_ones(transactions):
                self._verifier.confirm(transaction.message)

    def close(self, timeout: float = 30.0) -> None:
        """Let the agent finish, send the remaining records and wait for them.

        The end of a `with` block does it.

        Args:
            timeout: Most time in seconds for all of it.
        """
        self._close(timeout)
