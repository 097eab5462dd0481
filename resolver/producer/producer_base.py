"""Both producers' arguments, their start and their end.

`transaction_factory.py` makes the halves of their messages.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from typing import Any
from weakref import WeakSet

from ..errors import ListenerError
from ..protocol import Names
from ..protocol.groups import check_group
from .agent import Agent, AgentLimits
from .agent.checks import check_consumer_options
from .agent.outlet import SharedOutlet
from .client_options import check_producer_options, client_options
from .end_hooks import TransactionEnd
from .message import Message
from .opening import LAZY, Opened, Opening, check_connect
from .producer_settings import ProducerSettings
from .topic_limits import TopicLimits
from .transaction_factory import TransactionFactory
from .verifier import Verifier, is_verifying

_log = logging.getLogger(__name__)
#: Seconds that all open producers together have to close when the process ends.
_EXIT_SECONDS = 5.0
#: Most time in seconds that a start waits for the fast lane, which goes on trying.
_FAST_SECONDS = 3.0


class ProducerBase:
    """Checks its arguments when it is made; `_open` then connects to Kafka."""

    _factory: TransactionFactory
    _verifier: Verifier | None = None

    def __init__(
        self,
        group: str,
        bootstrap_servers: str,
        listener: Any = None,
        *,
        checks_elsewhere: bool = False,
        connect: str = "eager",
        topic_prefix: str = "tx.",
        send_timeout_ms: int = 10_000,
        check_real_topics: bool = True,
        real_topic_cache_ms: int = 60_000,
        op_max_bytes: int = 4096,
        op_linger_ms: int = 10,
        end_hooks: Iterable[Callable[[TransactionEnd], None]] = (),
        kafka: Mapping[str, Any] | None = None,
        check_thread_pool_min_size: int = 1,
        check_thread_pool_max_size: int = 5,
        check_request_hold_max: int = 2000,
        check_timeout_ms: int = 10_000,
        executor: Executor | None = None,
        verify: bool | None = None,
        fast: bool = False,
        fast_linger_ms: int = 5,
        fast_immunity_ms: int = 6000,
    ) -> None:
        check_group(group, topic_prefix)
        if listener is None and not checks_elsewhere:
            raise _nobody_answers(group)
        self.group = group
        self.agent: Agent | None = None
        self._listener = listener
        self._answers_checks = not checks_elsewhere
        self._limits = AgentLimits(
            check_thread_pool_min_size,
            check_thread_pool_max_size,
            check_request_hold_max,
            check_timeout_ms,
        )
        check_connect(connect)
        self._settings = ProducerSettings(
            send_timeout_ms=send_timeout_ms,
            check_real_topics=check_real_topics,
            real_topic_cache_ms=real_topic_cache_ms,
            op_max_bytes=op_max_bytes,
            op_linger_ms=op_linger_ms,
            end_hooks=tuple(end_hooks),
            fast=fast,
            fast_linger_ms=fast_linger_ms,
            fast_immunity_ms=fast_immunity_ms,
        )
        self._executor = executor
        self._verifies = is_verifying(verify, group, listener is not None)
        self._names = Names(topic_prefix)
        self._timeout = send_timeout_ms / 1000
        self._options = client_options(bootstrap_servers, kafka, group)
        if self._answers_checks:
            check_consumer_options(self._options, group)
        if connect == LAZY:
            check_producer_options(self._options)
        self._is_lazy = connect == LAZY
        self._opening = Opening(self._options, self._names, group, self._connect, self._undo)
        self._made()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.group!r}>"

    def _made(self) -> None:
        """Go on after the arguments are found to be good."""
        raise NotImplementedError

    def _open(self, listener: Any) -> None:
        """Connect to Kafka, or begin to connect; the agent's threads ask `listener`."""
        if self._is_lazy:
            self._opening.begin()
        else:
            self._opening.now(self._timeout)
            self._factory.wait_fast(min(_FAST_SECONDS, self._timeout))
        if self._answers_checks:
            outlet = SharedOutlet(self._opening.opened)
            self.agent = Agent(
                self.group, listener, self._names, self._options, outlet, self._limits,
                self._executor,
            )  # fmt: skip
            self.agent.start()
        if self._verifies:
            self._verifier = Verifier(listener, self.group, self._limits.check_timeout_ms)
        _open_producers.add(self)

    def _connect(self, limits: TopicLimits) -> Opened:
        self._factory = TransactionFactory(
            self.group, self._names, self._options, self._settings, limits
        )
        return self._factory.publisher, limits.queues

    def _undo(self) -> None:
        """End the clients: the producer was closed while they were made."""
        self._factory.close(0.0)

    def _close(self, timeout: float, for_agent: float | None = None) -> None:
        is_open = self._opening.close()
        if is_open and self._factory.forked:
            return  # the parent process closes it
        _open_producers.discard(self)
        deadline = time.monotonic() + timeout
        if self.agent is not None:
            self.agent.stop(timeout if for_agent is None else for_agent)
        if is_open:
            self._factory.close(deadline - time.monotonic())
        if self._verifier is not None:
            self._verifier.close()

    def _deadline(self, timeout: float | None) -> float:
        seconds = self._timeout if timeout is None else timeout
        return time.monotonic() + min(seconds, threading.TIMEOUT_MAX)

    def _unopened(self, deadline: float) -> Iterable[tuple[Future[Opened | None], float]]:
        """Return futures to wait for until the producer is open; none if it is open."""
        return () if self._opening.is_open else self._opening.waits(deadline)

    def _confirm_by_hand(self, message: Message) -> None:
        """Verify a commit that the application sends without a block."""
        if self._verifier is not None:
            self._verifier.confirm(message)


#: Producers that are open: those of a web application have no block that closes them.
_open_producers: WeakSet[ProducerBase] = WeakSet()


@atexit.register
def _close_open() -> None:
    """Send the last ops; without this, checks would have to find their ends.

    A listener that is asked may take all of the agent's time: the ops have the other half.
    """
    until = time.monotonic() + _EXIT_SECONDS
    for producer in list(_open_producers):
        try:
            remaining = max(0.0, until - time.monotonic())
            producer._close(remaining, remaining / 2)
        except Exception:
            _log.exception("the producer of group %s can't be closed", producer.group)


def _nobody_answers(group: str) -> ListenerError:
    return ListenerError(
        f"group {group!r} has no listener: nobody would answer its checks, and what is not "
        "ended would be discarded",
        remedy="give one, or checks_elsewhere=True where another process of the group "
        "(`txresolver agent`) answers",
    )
