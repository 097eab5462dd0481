"""The agent's life: it starts, reads and answers checks, and ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar

from ..ending import Ending
from ..errors import AgentHung, TxResolverError
from ..protocol import Names
from .asking import Asking, Submits
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def held(self) -> int:
        """How many checks are held: waiting, being asked, or with their answer under way."""
        return len(self._holding)

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start answering, in the background; Kafka need not be there yet."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait until the group has given this member its partitions (maybe none)."""
        self._see_started()
        self._ready.wait(timeout)
        return self._ready.is_set() and not self._ended.is_set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end, return whether it came; raises `AgentHung`, or what else ended it."""
        self._see_started()
        ended = self._ended.wait(timeout)
        if self.failure is not None:
            raise self.failure
        return ended

    def stop(self, timeout: float = 30.0) -> None:
        """Finish the answers that are being given, commit, leave the group."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _see_started(self) -> None:
        if self._thread.ident is None:
            raise TxResolverError(
                f"the agent of group {self.group!r} was not started; call start(), or use it in a "
                "with block"
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
            self.failure = TxResolverError(f"the agent of group {self.group} ended: {error}")
            self.failure.__cause__ = error
            _log.critical("the agent of group %s ends", self.group, exc_info=True)
        finally:
            self._outlet.close()
            self._ended.set()
            self._ready.set()  # nobody shall wait for what does not come any more

    def _answer(self, ending: Ending, queues: int) -> None:
        limits, progress = self._limits, Progress()
        pool = self._executor or self._own_pool()
        asking = Asking(self._listener, ending, self._holding, progress, pool, limits)
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
            self._loop(reader, asking)
        finally:
            reader.close()
            if isinstance(pool, DaemonPool):
                pool.close()

    def _loop(self, reader: CheckReader, asking: Asking) -> None:
        timeout = self._limits.check_timeout_ms / 1000
        while not self._stopping.is_set():
            reader.read(_READ_SECONDS)
            asking.tend()
            reader.store()
            if reader.assigned:
                self._ready.set()
            if asking.hung():
                # With the UNKNOWNs stored their offsets are committed: else whoever comes next
                # hangs at the same checks, and never gets to those behind them.
                self._finish(reader, asking, _ARRIVING_SECONDS)
                raise _hung(timeout)
        # Longer than any listener may take, and an answer on its way.
        self._finish(reader, asking, timeout + _ARRIVING_SECONDS)

    def _finish(self, reader: CheckReader, asking: Asking, seconds: float) -> None:
        """Wait for the answers that were begun; what waits is asked again by somebody."""
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


def _hung(timeout: float) -> AgentHung:
    return AgentHung(
        f"every thread waits for a listener that has not returned within {timeout:g} s; see what "
        "check_local_transaction waits for, or raise check_timeout_ms or "
        "check_thread_pool_max_size"
    )
