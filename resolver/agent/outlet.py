"""Where an agent's answers leave: through the producer it stands beside, or on its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ..connection import Connection
from ..ending import EndHook, Ending
from ..errors import SendError
from ..ops import OpSender
from ..protocol import Names
from ..queues import Queues, read_queues

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 5.0
_AGAIN_SECONDS = 2.0
_CLOSE_SECONDS = 10.0


class Outlet(Protocol):
    """Opened in the agent's thread, closed when it ends."""

    def open(self, stopping: threading.Event) -> tuple[Ending, int] | None:
        """Return where answers go and how many queues there are; None if stopped meanwhile."""

    def close(self) -> None:
        """Send what is left."""


class SharedOutlet:
    """The producer's; it closes it."""

    def __init__(self, ending: Ending, queues: int) -> None:
        self._opened = ending, queues

    def open(self, stopping: threading.Event) -> tuple[Ending, int] | None:
        return self._opened

    def close(self) -> None:
        """Nothing: the producer goes on."""


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

    def open(self, stopping: threading.Event) -> tuple[Ending, int] | None:
        queues = self._await_queues(stopping)
        if queues is None:
            return None
        connection = Connection(self._options, self._group, queues.op_max_bytes)
        ops = OpSender(
            connection, self._group, self._names.op, self._op_max_bytes, self._op_linger_ms
        )
        self._closes = [ops.close, connection.close]
        return Ending(ops, self._group, self._hooks), queues.count

    def close(self) -> None:
        for close in self._closes:
            close(_CLOSE_SECONDS)

    def _await_queues(self, stopping: threading.Event) -> Queues | None:
        said = ""
        while not stopping.is_set():
            try:
                return read_queues(self._options, self._names, _LOOK_SECONDS)
            except SendError as error:
                if str(error) != said:
                    _log.warning("the agent of group %s waits: %s", self._group, error)
                said = str(error)
            stopping.wait(_AGAIN_SECONDS)
        return None
