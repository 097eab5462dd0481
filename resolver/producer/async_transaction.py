"""A transaction of an `AsyncTransactionProducer`: a commit that waits is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, overload

from .transaction import Transaction, unknown_after_an_error

__all__ = ["AsyncTransaction"]

#: Raises where commits must not be sent.
Verify = Callable[[Sequence[Transaction]], Awaitable[None]]


class AsyncTransaction(Transaction):
    """A `Transaction` of an `AsyncTransactionProducer`: `commit(wait=True)` is awaited.

    All else is the same.

    Example:
        ```python
        tx = await producer.begin(Message("orders.placed", b"..."))
        await place_order(tx.transaction_id)  # commits in the database
        is_visible = await tx.commit(wait=True)
        ```
    """

    def __init__(self, verify: Verify, *transaction: Any) -> None:
        """Take what `Transaction` takes, behind `verify`. Not part of the API."""
        super().__init__(*transaction)
        self._verify = verify

    @overload  # type: ignore[override]  # who waits in an event loop must await
    def commit(self, wait: Literal[False] = False) -> bool: ...

    @overload
    def commit(self, wait: Literal[True]) -> Coroutine[Any, Any, bool]: ...

    def commit(self, wait: bool = False) -> bool | Coroutine[Any, Any, bool]:
        """Make the message visible; `await tx.commit(wait=True)` waits until it is safe in Kafka.

        Arguments, result and errors are the same as in `Transaction`. `commit(wait=True)` sends
        nothing before it is awaited.
        """
        return self._commit_and_wait() if wait else super().commit()

    async def _commit_and_wait(self) -> bool:
        if self.state is None:
            with unknown_after_an_error([self]):
                await self._verify([self])
        committed = asyncio.wrap_future(self._commit_to_wait_for())
        try:
            done, _ = await asyncio.wait([committed], timeout=self._wait_seconds)
            if not done:
                raise self._not_in_time()
            return committed.result()
        finally:
            committed.cancel()  # nobody looks at what comes later
