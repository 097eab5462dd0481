"""Asks the listener about held checks, and sends its answers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from ...errors import ListenerGone
from ..message import Message
from ..op_publisher import OpPublisher
from ..reported_state import ReportedState, call_listener, failure_of, unknown
from .check_log import CheckLog
from .holding import Held, Holding
from .limits import AgentLimits
from .progress import Progress

_AGAIN_SECONDS = 1.0


class Submits(Protocol):
    """Runs a task at some time: `DaemonPool`, or an executor of the standard library."""

    def submit(self, task: Callable[[], None], /) -> Any: ...


class Asking:
    """Lets the pool's threads ask; `tend` does what is due by time alone."""

    def __init__(
        self,
        listener: Any,
        ending: OpPublisher,
        holding: Holding,
        progress: Progress,
        pool: Submits,
        limits: AgentLimits,
        log: CheckLog,
    ) -> None:
        self._listener = listener
        self._log = log
        self._ending = ending
        self._holding = holding
        self._progress = progress
        self._pool = pool
        self._threads = limits.check_thread_pool_max_size
        self._timeout = limits.check_timeout_ms / 1000
        self._lock = threading.Lock()
        self._submitted = 0
        self._submitted_at = 0.0
        self._listener_gone: ListenerGone | None = None
        self._unsent: deque[tuple[float, Held, ReportedState]] = deque()
        #: Whether the listener's last answer was usable. True before the first.
        self.answers = True

    def hand_out(self) -> None:
        """Submit as many tasks as there is work and room for."""
        while self._may_submit():
            try:
                task = self._pool.submit(self._ask_next)
            except BaseException:
                self._returned()
                raise
            if isinstance(task, Future):
                task.add_done_callback(self._note)

    def tend(self) -> None:
        """Send UNKNOWN for overdue checks, send unsent answers again; raises `ListenerGone`."""
        if self._listener_gone is not None:
            raise self._listener_gone
        now = time.monotonic()
        late, needless = self._holding.take_overdue(now, self._timeout)
        for held in late:
            remark = f"the listener did not answer within {self._timeout:g} s"
            self._log.failed(held.check.half.transaction_id, remark)
            self.answers = False
            self._send(held, unknown(remark))
        for held in needless:
            self._progress.done(held.position)
        self._send_again(now)
        self.hand_out()
        self._log.tell()

    def hung(self) -> bool:
        """Whether every thread waits for a listener that does not return."""
        with self._lock:
            submitted, submitted_at = self._submitted, self._submitted_at
        now = time.monotonic()
        return self._holding.hung(now, self._threads, self._timeout, submitted, submitted_at)

    def _may_submit(self) -> bool:
        with self._lock:
            may = self._submitted < min(self._threads, self._holding.wanted())
            if may:
                self._submitted += 1
                self._submitted_at = time.monotonic()
            return may

    def _returned(self) -> None:
        with self._lock:
            self._submitted -= 1

    def _note(self, task: Future[Any]) -> None:
        if task.cancelled():  # it never ran, as its executor was shut down
            self._returned()

    def _ask_next(self) -> None:
        held = self._holding.take(time.monotonic())
        try:
            if held is not None:
                self._ask(held)
        finally:
            self._returned()
        if held is not None:
            self.hand_out()

    def _ask(self, held: Held) -> None:
        warn = partial(self._log.failed, held.check.half.transaction_id)
        try:
            answer = call_listener(
                self._listener.check_local_transaction, _message(held), warn=warn
            )
        except ListenerGone as gone:
            self._listener_gone = gone
            return
        except BaseException as error:  # CancelledError, SystemExit: neither may cost a thread
            answer = failure_of(self._listener.check_local_transaction, error, warn)
        self._log.answered(answer.state)
        self.answers = answer.usable
        if self._holding.finish(held, time.monotonic()):
            self._send(held, answer)
        else:
            # Send the late answer too: it may end the half. The UNKNOWN that was sent covers the
            # offset.
            self._end(held, answer)

    def _send(self, held: Held, answer: ReportedState) -> None:
        self._end(held, answer, lambda error: self._stored(held, answer, error))

    def _end(self, held: Held, answer: ReportedState, on_stored: Any = None) -> None:
        self._log.ends(held.check, answer)
        self._ending.end(_message(held), held.half_id, answer, True, on_stored)

    def _stored(self, held: Held, answer: ReportedState, error: Exception | None) -> None:
        if error is not None:
            self._unsent.append((time.monotonic() + _AGAIN_SECONDS, held, answer))
            return
        self._progress.done(held.position)
        self._holding.arrived()

    def _send_again(self, now: float) -> None:
        while self._unsent and self._unsent[0][0] <= now:
            _, held, answer = self._unsent.popleft()
            self._repeat(held, answer)

    def _repeat(self, held: Held, answer: ReportedState) -> None:
        def stored(error: Exception | None) -> None:
            self._stored(held, answer, error)

        self._ending.add(_message(held), held.half_id, answer, True, stored)


def _message(held: Held) -> Message:
    check = held.check
    return Message.of_half(check.half, check.half_id, check.times, check.truncated)
