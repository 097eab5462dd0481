"""The agent: it starts, reads and answers checks, and ends.

Next station: answers leave through `resolver/producer/op_publisher.py`, as ops.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ...errors import AgentHung, TxResolverError
from ...protocol import Names
from ..op_publisher import OpPublisher
from .asking import Asking, Submits
from .check_log import CheckLog
from .checks import CheckReader
from .holding import Holding
from .limits import AgentLimits
from .outlet import Outlet
from .pool import DaemonPool
from .progress import Progress

_log = logging.getLogger(__name__)
_READ_SECONDS = 0.1
_ARRIVING_SECONDS = 10.0
Self = TypeVar("Self", bound="Agent")


class Agent:
    """Answers the checks of one group, from a thread of its own; see `TransactionAgent`."""

    def __init__(
        self,
        group: str,
        listener: Any,
        names: Names,
        options: Mapping[str, Any],
        outlet: Outlet,
        limits: AgentLimits,
        executor: Submits | None = None,
    ) -> None:
        self.group = group
        self.failure: TxResolverError | None = None
        self._listener = listener
        self._names = names
        self._options = options
        self._outlet = outlet
        self._limits = limits
        self._executor = executor
        self._holding = Holding()
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"txresolver-agent-{group}", daemon=True
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.group!r}>"

    def __enter__(self: Self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def held(self) -> int:
        """Number of held checks: waiting, being asked, or with their answer under way."""
        return len(self._holding)

    @property
    def held_max(self) -> int:
        """Number of held checks at which the agent fetches no more."""
        return self._limits.check_request_hold_max

    @property
    def alive(self) -> bool:
        """Whether the agent was started and has not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start answering, in the background; Kafka need not be there yet."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait until the group has given this member its partitions (maybe none).

        Args:
            timeout: Most time in seconds. None: no limit.

        Returns:
            Whether the group has done so and the agent has not ended.

        Raises:
            TxResolverError: If the agent was not started.
        """
        self._see_started()
        self._ready.wait(timeout)
        return self._ready.is_set() and not self._ended.is_set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the agent's end.

        Args:
            timeout: Most time in seconds. None: no limit.

        Returns:
            Whether the agent has ended.

        Raises:
            AgentHung: If every thread waits for a listener that does not return.
            TxResolverError: If another error ended the agent, or it was not started.
        """
        self._see_started()
        ended = self._ended.wait(timeout)
        if self.failure is not None:
            raise self.failure
        return ended

    def stop(self, timeout: float = 30.0) -> None:
        """Finish the answers that were begun, commit their offsets, leave the group.

        Args:
            timeout: Most time in seconds to wait for the end.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _see_started(self) -> None:
        if self._thread.ident is None:
            raise TxResolverError(
                f"the agent of group {self.group!r} was not started",
                remedy="call start(), or use it in a with block",
            )

    def _run(self) -> None:
        try:
            opened = self._outlet.open(self._stopping)
            if opened is not None:
                self._answer(*opened)
        except AgentHung as error:
            self.failure = error
            _log.critical("the agent of group %s ends: %s", self.group, error)
        except Exception as error:
            self.failure = _ended(self.group, error)
            self.failure.__cause__ = error
            _log.critical("the agent of group %s ends", self.group, exc_info=True)
        finally:
            self._outlet.close()
            self._ended.set()
            self._ready.set()  # ends a wait for readiness that won't come

    def _answer(self, ending: OpPublisher, queues: int) -> None:
        limits, progress = self._limits, Progress()
        pool = self._executor or self._own_pool()
        log = CheckLog(self.group)
        asking = Asking(self._listener, ending, self._holding, progress, pool, limits, log)
        reader = CheckReader(
            self._options,
            self._names,
            self.group,
            queues,
            self._holding,
            progress,
            limits.check_request_hold_max,
        )
        try:
            self._loop(reader, asking, partial(ending.announce, queues))
        finally:
            reader.close()
            if isinstance(pool, DaemonPool):
                pool.close()

    def _loop(self, reader: CheckReader, asking: Asking, announce: Callable[[], None]) -> None:
        timeout = self._limits.check_timeout_ms / 1000
        while not self._stopping.is_set():
            reader.read(_READ_SECONDS)
            asking.tend()
            reader.store()
            if reader.assigned:
                self._ready.set()
            if reader.is_new() and asking.answers and not len(self._holding):
                # All checks that waited are answered. A half that still pends may have been asked
                # about by a check that another member used up. A listener that fails announces
                # nothing: it would use up the next checks too.
                announce()
                reader.was_announced()
            if asking.hung():
                # Store the UNKNOWNs first, so that their offsets are committed. Otherwise the next
                # member hangs at the same checks and never reaches the checks behind them.
                self._finish(reader, asking, _ARRIVING_SECONDS)
                raise _hung(timeout)
        # Wait longer than any listener may take, plus the time of an answer under way.
        self._finish(reader, asking, timeout + _ARRIVING_SECONDS)

    def _finish(self, reader: CheckReader, asking: Asking, seconds: float) -> None:
        """Wait up to `seconds` for answers that were begun.

        Waiting checks are dropped. Their offsets stay uncommitted, so that some member reads them
        again.
        """
        reader.stop_reading()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._holding.drop_waiting()
            if not len(self._holding):
                return
            asking.tend()
            reader.read(_READ_SECONDS / 10)

    def _own_pool(self) -> DaemonPool:
        limits = self._limits
        return DaemonPool(
            limits.check_thread_pool_min_size,
            limits.check_thread_pool_max_size,
            f"txresolver-check-{self.group}",
        )


def _ended(group: str, error: Exception) -> TxResolverError:
    ended = f"the agent of group {group} ended"
    if isinstance(error, TxResolverError):
        return TxResolverError(f"{ended}: {error.message}", remedy=error.remedy)
    return TxResolverError(f"{ended}: {error}")


def _hung(timeout: float) -> AgentHung:
    return AgentHung(
        f"every thread waits for a listener that has not returned within {timeout:g} s",
        remedy="see what check_local_transaction waits for, or raise check_timeout_ms or "
        "check_thread_pool_max_size",
    )
