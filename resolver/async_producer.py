"""`AsyncTransactionProducer`: the same for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any

from .async_listener import ListenerOfLoop, ask_in_loop
from .errors import SendError
from .halves import ROOM_SECONDS
from .listener import FOR_ALL, FOR_ONE, check_listener, local_transaction
from .message import Message
from .producer_base import ProducerBase
from .transaction import Transaction, TransactionSendResult, ending_all

__all__ = ["AsyncTransactionProducer"]


class AsyncTransactionProducer(ProducerBase):
    """`TransactionProducer` for asyncio: what waits there is awaited here, without a thread.

        async with AsyncTransactionProducer("orders", "localhost:9092", listener) as producer:
            async with producer.transaction(Message("orders.placed", b"...")) as tx:
                await place_order(tx.transaction_id)

    Arguments, methods and errors are those of `TransactionProducer`. Kafka is asked for the topics
    by `start`, or the beginning of `async with`. A method of the listener may be async, then it
    runs in the event loop of that start; if it is not, it runs in a thread.
    A cancelled task leaves its transaction UNKNOWN too, for a check to decide; one that is
    cancelled before its half is acknowledged rolls it back.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _started = False

    def _made(self) -> None:
        if self._listener is not None:
            check_listener(self._listener, may_be_async=True)

    async def __aenter__(self) -> AsyncTransactionProducer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Ask Kafka for the topics and connect: `SendError` when they are not there."""
        if self._started:
            raise SendError(
                f"the producer of group {self.group!r} was started already; once will do. After a "
                "start that was cancelled make a new one"
            )
        self._started = True
        loop = asyncio.get_running_loop()
        opening = in_thread(self._open, ListenerOfLoop(self._listener, loop))
        try:
            await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # Its thread can't be stopped, and this task may not be there when it is done.
            opening.add_done_callback(self._close_again)
            raise
        except Exception:
            self._started = False
            raise
        self._loop = loop

    async def close(self, timeout: float = 30.0) -> None:
        """Let the agent finish, send what is left, wait for it; at most `timeout` seconds."""
        if self._loop is not None:
            # Not one of asyncio's threads: all of them may wait for a local transaction.
            await asyncio.wrap_future(in_thread(self._close, timeout))

    async def send_message_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store the half, run the listener's local transaction with `arg`, send its op."""
        method = local_transaction(self._listener, FOR_ONE)
        async with self.transaction(message, timeout) as tx:
            tx.end(await ask_in_loop(method, tx.message, arg))
        return tx.result()

    async def send_messages_in_transaction(
        self, messages: Iterable[Message], arg: Any = None, timeout: float | None = None
    ) -> list[TransactionSendResult]:
        """Store all halves, run one local transaction for all of them, send their ops."""
        method = local_transaction(self._listener, FOR_ALL)
        async with self.transactions(messages, timeout) as begun:
            answer = await ask_in_loop(method, [tx.message for tx in begun], arg)
            for tx in begun:
                tx.end(answer)
        return [tx.result() for tx in begun]

    @asynccontextmanager
    async def transaction(
        self, message: Message, timeout: float | None = None
    ) -> AsyncIterator[Transaction]:
        """Store the half, run the block, commit; an exception leaves UNKNOWN and goes on."""
        transaction = await self.begin(message, timeout)
        with ending_all([transaction]):
            yield transaction

    @asynccontextmanager
    async def transactions(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> AsyncIterator[list[Transaction]]:
        """Like `transaction`, with many messages for one local transaction, sent together."""
        begun = await self.begin_all(messages, timeout)
        with ending_all(begun):
            yield begun

    async def begin(self, message: Message, timeout: float | None = None) -> Transaction:
        """Store the half and return its transaction, for the caller to end."""
        return (await self.begin_all([message], timeout))[0]

    async def begin_all(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> list[Transaction]:
        """Store many halves, waiting once; one that fails takes the others with it."""
        loop = self._started_loop()
        deadline = self._deadline(timeout)
        arrived = loop.create_future()
        sending = self._sending(messages, partial(_wake_in, loop, arrived))
        try:
            while not sending.hand_over(deadline):
                await asyncio.sleep(ROOM_SECONDS)
            late = loop.call_later(max(0.0, deadline - time.monotonic()), _wake, arrived)
            try:
                await arrived
            finally:
                late.cancel()
            return self._begun(sending)
        except BaseException:
            sending.abandon()
            raise

    def _close_again(self, opened: Future[None]) -> None:
        if opened.exception() is None:
            in_thread(self._close, 0.0)

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise SendError(
                f"the producer of group {self.group!r} was not started in this event loop; use "
                "`async with`, or await its start()"
            )
        return loop


def in_thread(function: Callable[..., None], *args: Any) -> Future[None]:
    """Run a function in a thread of its own, which nobody waits for at exit."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # it can't be cancelled any more

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
