"""How a producer comes to its connection: at once, or in the background when brokers are there."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from ..errors import SendError, SettingsError
from ..protocol import Names
from .op_publisher import OpPublisher
from .topic_limits import TopicLimits, await_limits, read_limits

_log = logging.getLogger(__name__)
LAZY = "lazy"

#: The way for ends, and the number of queues.
Opened = tuple[OpPublisher, int]


def check_connect(connect: str) -> None:
    """Raise `SettingsError` if an argument `connect` has no meaning."""
    if connect not in ("eager", LAZY):
        raise SettingsError(
            f"connect is {connect!r}",
            remedy="give 'eager' to connect at the start, or 'lazy' to start without brokers",
        )


class Opening:
    """Opens a producer once: `connect` makes its clients, `undo` ends them.

    Senders of a lazy producer wait here until it is open. Several threads may.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        names: Names,
        group: str,
        connect: Callable[[TopicLimits], Opened],
        undo: Callable[[], object],
    ) -> None:
        #: None as its result: the producer was closed before, or it can never be opened.
        self.opened: Future[Opened | None] = Future()
        self.opened.set_running_or_notify_cancel()  # rules out a cancellation
        self.is_open = False
        self._options = options
        self._names = names
        self._group = group
        self._connect = connect
        self._undo = undo
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._last_error: SendError | None = None
        self._failure: BaseException | None = None

    def now(self, timeout: float) -> None:
        """Open; raises what `read_limits` raises."""
        self._finish(self._connect(read_limits(self._options, self._names, timeout)))

    def begin(self) -> None:
        """Open in the background, as soon as brokers and topics are there."""
        name = f"txresolver-connect-{self._group}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def waits(self, deadline: float) -> Iterator[tuple[Future[Opened | None], float]]:
        """Yield the future to wait for, and for how many seconds; `deadline` is monotonic.

        Raises `SendError` if the producer is not open then, closed, or a copy in a fork.
        """
        self._check_fork()
        since = time.monotonic()
        yield self.opened, max(0.0, deadline - since)
        if not self.opened.done():
            raise self._not_connected(time.monotonic() - since)
        if self.opened.result() is None:
            raise self._failure or self._closed()

    def close(self) -> bool:
        """Stop connecting; return whether the producer is open, so that there is much to close."""
        if os.getpid() != self._pid:
            return self.is_open  # in a fork the lock may never be released
        with self._lock:
            self._stopping.set()
            if not self.opened.done():
                self.opened.set_result(None)
        return self.is_open

    def _run(self) -> None:
        try:
            limits = await_limits(
                self._options, self._names, f"the producer of group {self._group}", self._stopping,
                self._note,
            )  # fmt: skip
            if limits is not None:
                self._finish(self._connect(limits))
        except BaseException as error:  # the senders raise it
            self._give_up(error)

    def _finish(self, opened: Opened) -> None:
        with self._lock:
            if not self._stopping.is_set():
                self.is_open = True
                self.opened.set_result(opened)
                return
        self._undo()  # it was closed meanwhile

    def _give_up(self, error: BaseException) -> None:
        _log.critical("the producer of group %s can't connect: %s", self._group, error)
        self._failure = error
        with self._lock:
            if not self.opened.done():
                self.opened.set_result(None)

    def _note(self, error: SendError) -> None:
        self._last_error = error

    def _check_fork(self) -> None:
        if os.getpid() != self._pid:
            raise SendError(
                f"the producer of group {self._group!r} was made in process {self._pid} and can't "
                f"be used in its fork {os.getpid()}",
                remedy="make one after the fork",
            )

    def _closed(self) -> SendError:
        return SendError(
            f"the producer of group {self._group!r} is closed", remedy="make a new one"
        )

    def _not_connected(self, seconds: float) -> SendError:
        last = self._last_error
        why = last or SendError(f"no broker of {self._options['bootstrap.servers']} answered yet")
        return type(why)(
            f"nothing was stored for group {self._group!r}: the producer has no connection after "
            f"{seconds:.1f} s (send_timeout_ms, or the call's timeout) and goes on trying: "
            f"{why.message}",
            remedy=why.remedy,
        )
