"""Asks a listener about local transactions, as an agent does: from other threads."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from ..errors import ContractBroken
from ..producer.async_listener import ListenerOfLoop
from ..producer.message import Message
from ..producer.verifier import Confirmation, Verifier
from ..protocol import HalfId, TransactionStatus

_AGAIN_SECONDS = 0.1
_GROUP = "contract"


class Asking:
    """Asks within a `with` block; methods that are async run in an event loop of its own."""

    def __init__(self, listener: Any, message: Message, patience_seconds: float) -> None:
        self._message = message
        self._seconds = patience_seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        of_loop = ListenerOfLoop(listener, self._loop)
        self._verifier = Verifier(of_loop, _GROUP, int(patience_seconds * 1000))

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._verifier.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, transaction_id: str) -> Future[Confirmation]:
        """Send the first check of a transaction; do not wait for its answer."""
        half = self._message.to_half(_GROUP, transaction_id, time.time_ns() // 1_000_000)
        return self._verifier.ask(Message.of_half(half, HalfId(0, 0)))

    def wait(self, asked: Future[Confirmation]) -> Confirmation:
        """Return the answer; without one in time, what stands for it."""
        try:
            return asked.result(self._seconds)
        except FutureTimeout:
            return self._verifier.late()

    def must_answer(
        self, transaction_id: str, wanted: TransactionStatus, when: str, remedy: str
    ) -> None:
        """Ask until there is an answer; raises `ContractBroken` if it is another one."""
        until = time.monotonic() + self._seconds
        answer, error = self.wait(self.ask(transaction_id))
        # Without an answer the resolver asks again: the database may not have ended a dead session.
        while not answer.usable and time.monotonic() < until:
            time.sleep(_AGAIN_SECONDS)
            answer, error = self.wait(self.ask(transaction_id))
        if answer.state is not wanted or not answer.usable:
            got = answer.state.value
            if not answer.usable:
                got = f"no answer ({answer.remark})"
                remedy = "Find out why check_local_transaction fails, or what it waits for"
            raise ContractBroken(
                f"{when}, and a check gets {got} instead of {wanted.value}", remedy=remedy
            ) from error
