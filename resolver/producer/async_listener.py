"""Listeners whose methods may be async: an async method runs in the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ListenerGone
from .message import Message
from .reported_state import ReportedState, failure_of, state_of


class ListenerOfLoop:
    """Answers the agent's threads; `loop` runs async methods while a thread waits."""

    def __init__(self, listener: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._listener = listener
        self._loop = loop

    def check_local_transaction(self, message: Message) -> Any:
        return_value = self._listener.check_local_transaction(message)
        if not inspect.iscoroutine(return_value):
            return return_value
        if self._loop.is_closed():
            return_value.close()
            raise ListenerGone(
                "the event loop of its listener is closed", remedy="close the producer first"
            )
        return asyncio.run_coroutine_threadsafe(return_value, self._loop).result()


async def call_listener_in_loop(method: Callable[..., Any], *args: Any) -> ReportedState:
    """Do what `call_listener` does: await an async method, run a plain one in a thread."""
    try:
        is_async = inspect.iscoroutinefunction(method)
        return_value = (
            method(*args) if is_async else await asyncio.to_thread(_call_in_thread, method, *args)
        )
        if inspect.iscoroutine(return_value):  # a decorator hid that it is async
            return_value = await return_value
    except Exception as error:
        return failure_of(method, error)
    return (
        return_value if isinstance(return_value, ReportedState) else state_of(method, return_value)
    )


def _call_in_thread(method: Callable[..., Any], *args: Any) -> Any:
    try:
        return method(*args)
    except Exception as error:  # a future refuses StopIteration: its awaiter would hang
        return failure_of(method, error)
