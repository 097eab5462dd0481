"""Ways for an agent's answers: through the producer beside it, or by a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Protocol

from ...protocol import Names
from ..connection import Connection
from ..end_hooks import EndHook
from ..op_publisher import OpPublisher
from ..topic_limits import await_limits

#: Time in seconds after which a wait for the producer looks whether the agent was stopped.
_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 10.0


class Outlet(Protocol):
    """A way for answers: the agent's thread opens it, and closes it when the agent ends."""

    def open(self, stopping: threading.Event) -> tuple[OpPublisher, int] | None:
        """Return the publisher of ops and the number of queues; None if stopped meanwhile."""

    def close(self) -> None:
        """Send the remaining ops."""


class SharedOutlet:
    """The producer's connection, which the producer opens and closes."""

    def __init__(self, opened: Future[tuple[OpPublisher, int] | None]) -> None:
        self._opened = opened

    def open(self, stopping: threading.Event) -> tuple[OpPublisher, int] | None:
        while not stopping.is_set():
            if wait([self._opened], _LOOK_SECONDS).done:
                return self._opened.result()
        return None

    def close(self) -> None:
        """Do nothing: the producer goes on."""


class OwnOutlet:
    """A connection of its own, made when the brokers and topics are there."""

    def __init__(
        self,
        options: Mapping[str, Any],
        names: Names,
        group: str,
        op_max_bytes: int,
        op_linger_ms: int,
        hooks: Iterable[EndHook],
    ) -> None:
        self._options = options
        self._names = names
        self._group = group
        self._hooks = tuple(hooks)
        self._op_max_bytes = op_max_bytes
        self._op_linger_ms = op_linger_ms
        self._closes: list[Callable[[float], Any]] = []

    def open(self, stopping: threading.Event) -> tuple[OpPublisher, int] | None:
        waiter = f"the agent of group {self._group}"
        limits = await_limits(self._options, self._names, waiter, stopping, _ignore)
        if limits is None:
            return None
        connection = Connection(self._options, self._group, limits.op_max_bytes)
        packing = (self._op_max_bytes, self._op_linger_ms)
        ops = OpPublisher(connection, self._group, self._names.op, *packing, self._hooks)
        self._closes = [ops.close, connection.close]
        return ops, limits.queues

    def close(self) -> None:
        for close in self._closes:
            close(_CLOSE_SECONDS)


def _ignore(_error: object) -> None:
    """Do nothing: the log has it."""
