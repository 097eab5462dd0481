"""`AsyncTransactionProducer`: `TransactionProducer` for asyncio."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from ..errors import SendError
from .async_listener import ListenerOfLoop, call_listener_in_loop
from .async_transaction import AsyncTransaction
from .half_sender import ROOM_SECONDS
from .listener import FOR_ALL, FOR_ONE, check_listener, local_transaction_method
from .message import Message
from .producer_base import ProducerBase
from .send_result import TransactionSendResult
from .transaction import Transaction, end_unless_commit, ending_all, open_ones
from .verifier import judge

__all__ = ["AsyncTransactionProducer"]

_log = logging.getLogger(__name__)


class AsyncTransactionProducer(ProducerBase):
    """`TransactionProducer` for asyncio: its methods are awaited, and a send occupies no thread.

    Making a producer only checks the arguments. `start`, or the beginning of `async with`, asks
    Kafka for the topics. A cancelled task leaves its transaction UNKNOWN, for a check to decide. A
    task that is cancelled before its half is acknowledged rolls it back.

    Args:
        group: Producer group. Its live members answer each other's checks.
        bootstrap_servers: Kafka's brokers, such as `kafka1:9092,kafka2:9092`.
        listener: Answers checks. `send_message_in_transaction` and `send_messages_in_transaction`
            run its local transaction too. Its methods may be async. An async method runs in the
            event loop of the start, a plain method in a thread. None is allowed only with
            `checks_elsewhere`.
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
            A `commit()` by hand in the event loop is not verified: it can't wait there.
        fast: True: commits become visible by Kafka transactions of this producer's own, within
            milliseconds (docs/fast.md says when that pays). The group needs Write on its topics,
            and on transactional ids that begin with `tx.fast:<group>:`.
        fast_linger_ms: Least time in ms from the beginning of one of these Kafka transactions to
            the next. Commits that come meanwhile share the next one.
        fast_immunity_ms: The resolver's `transaction_timeout_ms`, by which a local transaction is
            too slow for a fast commit.

    Attributes:
        group: The producer group.
        agent: The agent that answers checks. None before the start, and with `checks_elsewhere`.

    Raises:
        SettingsError: If an argument or an option is illegal.
        ListenerError: If the listener is missing or unusable.
        SendError: By `start`, if the brokers do not answer in time, or the topics are missing. With
            `lazy` each send raises it.

    Example:
        ```python
        async with AsyncTransactionProducer("orders", "localhost:9092", listener) as producer:
            async with producer.transaction(Message("orders.placed", b"...")) as tx:
                await place_order(tx.transaction_id)
        ```
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _started = False

    def _made(self) -> None:
        if self._listener is not None:
            check_listener(self._listener, may_be_async=True)

    async def __aenter__(self) -> AsyncTransactionProducer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Ask Kafka for the topics and connect; call it once.

        Raises:
            SendError: If the brokers do not answer in time, or the topics are missing, unless the
                producer is `lazy`. Also if the producer was started already.
        """
        if self._started:
            raise SendError(
                f"the producer of group {self.group!r} was started already",
                remedy="start it once; after a start that was cancelled make a new one",
            )
        self._started = True
        loop = asyncio.get_running_loop()
        opening = in_thread(self._open, ListenerOfLoop(self._listener, loop))
        try:
            await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # Close the connection when the thread is done: the thread can't be stopped, and this
            # task may be gone by then.
            opening.add_done_callback(self._close_again)
            raise
        except Exception:
            self._started = False
            raise
        self._loop = loop

    async def close(self, timeout: float = 30.0) -> None:
        """Let the agent finish, send the remaining records and wait for them.

        The end of an `async with` block does it.

        Args:
            timeout: Most time in seconds for all of it.
        """
        if self._loop is not None:
            # Use a separate thread: all of asyncio's may wait for local transactions.
            await asyncio.wrap_future(in_thread(self._close, timeout))

    async def send_message_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store the half, run the listener's local transaction with `arg`, have its op sent.

        Arguments, result and errors are the same as in `TransactionProducer`.
        """
        method = local_transaction_method(self._listener, FOR_ONE)
        async with self.transaction(message, timeout) as tx:
            end_unless_commit([tx], await call_listener_in_loop(method, tx.message, arg))
        return tx.result()

    async def send_messages_in_transaction(
        self, messages: Iterable[Message], arg: Any = None, timeout: float | None = None
    ) -> list[TransactionSendResult]:
        """Store all halves, run one local transaction for all of them, have their ops sent.

        Arguments, result and errors are the same as in `TransactionProducer`.
        """
        method = local_transaction_method(self._listener, FOR_ALL)
        async with self.transactions(messages, timeout) as begun:
            messages = [tx.message for tx in begun]
            end_unless_commit(begun, await call_listener_in_loop(method, messages, arg))
        return [tx.result() for tx in begun]

    @asynccontextmanager
    async def transaction(
        self, message: Message, timeout: float | None = None
    ) -> AsyncIterator[AsyncTransaction]:
        """Store the half, run the block, commit; after an exception send UNKNOWN and raise it on.

        Arguments and errors are the same as in `TransactionProducer`. `SendError` is also raised if
        the producer was not started in this event loop.
        """
        transaction = await self.begin(message, timeout)
        with ending_all([transaction]):
            yield transaction
            await self._verify_commits([transaction])

    @asynccontextmanager
    async def transactions(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> AsyncIterator[list[AsyncTransaction]]:
        """Do the same as `transaction` with many messages and one local transaction.

        The halves are sent together.
        """
        begun = await self.begin_all(messages, timeout)
        with ending_all(begun):
            yield begun
            await self._verify_commits(begun)

    async def begin(self, message: Message, timeout: float | None = None) -> AsyncTransaction:
        """Store the half and return its transaction, which the caller ends.

        Arguments and errors are the same as in `transaction`.
        """
        return (await self.begin_all([message], timeout))[0]

    async def begin_all(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> list[AsyncTransaction]:
        """Store many halves, wait once, and return their transactions, which the caller ends.

        A message that is refused stores none. A half that is not acknowledged has the others rolled
        back.
        """
        loop = self._started_loop()
        deadline = self._deadline(timeout)
        for opened, seconds in self._unopened(deadline):
            await asyncio.wait([asyncio.wrap_future(opened)], timeout=seconds)
        prepared = self._factory.prepare(messages)
        for asked, seconds in self._factory.topic_questions(prepared, deadline):
            await asyncio.wait([asyncio.wrap_future(asked)], timeout=seconds)
        arrived = loop.create_future()
        sending = self._factory.new_sending(prepared, partial(_wake_in, loop, arrived))
        try:
            while not sending.send_rest(deadline):
                await asyncio.sleep(ROOM_SECONDS)
            late = loop.call_later(max(0.0, deadline - time.monotonic()), _wake, arrived)
            try:
                await arrived
            finally:
                late.cancel()
            confirm = None if self._verifier is None else self._confirm_by_hand
            kind = partial(AsyncTransaction, self._verify_commits)
            return self._factory.transactions(sending, kind, confirm)
        except BaseException:
            sending.abandon()
            raise

    async def _verify_commits(self, transactions: Iterable[Transaction]) -> None:
        """Verify the commits that the end of a block is about to send."""
        if self._verifier is None:
            return
        for transaction in open_ones(transactions):
            asked = asyncio.wrap_future(self._verifier.ask(transaction.message))
            done, _ = await asyncio.wait([asked], timeout=self._verifier.seconds)
            judge(transaction.message, asked.result() if done else self._verifier.late())

    def _confirm_by_hand(self, message: Message) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in a thread, which may wait
            super()._confirm_by_hand(message)
        else:
            _log.warning(
                "transaction %s is not verified: commit() can't wait in the event loop. Use "
                "`async with producer.transaction(message) as tx:`",
                message.transaction_id,
            )

    def _close_again(self, opened: Future[None]) -> None:
        if opened.exception() is None:
            in_thread(self._close, 0.0)

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise SendError(
                f"the producer of group {self.group!r} was not started in this event loop",
                remedy="use `async with`, or await its start()",
            )
        return loop


def in_thread(function: Callable[..., None], *args: Any) -> Future[None]:
    """Run a function in a daemon thread: the process does not wait for it at its end."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # rules out a cancellation

    def run() -> None:
        try:
            function(*args)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="txresolver-start-or-close", daemon=True).start()
    return done


def _wake_in(loop: asyncio.AbstractEventLoop, arrived: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_wake, arrived)


def _wake(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
