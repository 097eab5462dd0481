"""The common part of `TransactionProducer` and `AsyncTransactionProducer`: all but the waiting.

Next station: `half_sender.py` stores the halves that are made here.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any, TypeVar
from weakref import WeakSet

from ..errors import ListenerError, SettingsError
from ..protocol import Names, TransactionStatus
from ..protocol.groups import check_group
from .agent import Agent, AgentLimits
from .agent.checks import check_consumer_options
from .agent.limits import check_whole
from .agent.outlet import SharedOutlet
from .client_options import BATCH_BYTES, check_producer_options, client_options
from .connection import Connection
from .end_hooks import EndHook
from .fast import FastLane, FastLimits
from .half_sender import Prepared, QueueChoice, Sending, SentHalf
from .listener import Answer
from .message import Message
from .message_rules import MARGIN_BYTES, check_message, check_size
from .op_publisher import OpPublisher
from .opening import LAZY, Opened, Opening, check_connect
from .policy_follower import PolicyFollower
from .real_topics import RealTopics
from .topic_limits import TopicLimits
from .transaction import Transaction
from .verifier import Verifier, is_verifying

_log = logging.getLogger(__name__)
_NOT_RUN = Answer(TransactionStatus.ROLLBACK_MESSAGE, "stored after its sender gave up")
#: Seconds that all open producers together have to close when the process ends.
_EXIT_SECONDS = 5.0
#: Most time in seconds that a start waits for the fast lane, which goes on trying.
_FAST_SECONDS = 3.0
T = TypeVar("T", bound=Transaction)


class ProducerBase:
    """Checks its arguments when it is made; `_open` then connects to Kafka."""

    _topics: TopicLimits
    _connection: Connection
    _publisher: OpPublisher
    _choice: QueueChoice
    _policy: PolicyFollower
    _real_topics: RealTopics | None = None
    _verifier: Verifier | None = None
    _fast_lane: FastLane | None = None

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
        end_hooks: Iterable[EndHook] = (),
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
        check_whole("send_timeout_ms", send_timeout_ms, 1)
        check_whole("real_topic_cache_ms", real_topic_cache_ms, 0)
        check_whole("op_max_bytes", op_max_bytes, 1)
        check_whole("op_linger_ms", op_linger_ms, 0)
        check_whole("fast_linger_ms", fast_linger_ms, 0)
        check_whole("fast_immunity_ms", fast_immunity_ms, 1)
        if not isinstance(fast, bool):
            raise SettingsError(f"fast is {fast!r}", remedy="give True or False")
        self._executor = executor
        self._verifies = is_verifying(verify, group, listener is not None)
        self._names = Names(topic_prefix)
        self._timeout = send_timeout_ms / 1000
        self._checks_real_topics = check_real_topics
        self._cache_seconds = real_topic_cache_ms / 1000
        self._packing = (op_max_bytes, op_linger_ms)
        self._hooks = tuple(end_hooks)
        self._is_fast = fast
        self._fast_seconds = (fast_linger_ms / 1000, fast_immunity_ms / 1000)
        self._options = client_options(bootstrap_servers, kafka, group)
        if self._answers_checks:
            check_consumer_options(self._options, group)
        if connect == LAZY:
            check_producer_options(self._options)
        self._is_lazy = connect == LAZY
        self._opening = Opening(self._options, self._names, group, self._connect, self._disconnect)
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
            if self._fast_lane is not None:
                self._fast_lane.wait_ready(min(_FAST_SECONDS, self._timeout))
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
        self._topics = limits
        self._choice = QueueChoice(limits.queues, one_queue=self._is_fast)
        batch_bytes = min(limits.half_max_bytes, limits.op_max_bytes)
        self._connection = Connection(self._options, self.group, batch_bytes)
        self._policy = PolicyFollower(self._options, self.group, self._names.policy)
        self._policy.read(self._timeout)
        self._connection.do_beside(self._policy.look)
        if self._checks_real_topics:
            self._real_topics = RealTopics(
                self._options, self.group, self._cache_seconds, limits.half_max_bytes
            )
        self._publisher = OpPublisher(
            self._connection, self.group, self._names.op, *self._packing, self._hooks
        )
        if self._is_fast:
            op_bytes = limits.op_max_bytes - MARGIN_BYTES
            fast = FastLimits(*self._fast_seconds, min(batch_bytes, BATCH_BYTES), op_bytes)
            self._fast_lane = FastLane(
                self._options, self.group, self._names, fast, self._publisher
            )
        return self._publisher, limits.queues

    def _close(self, timeout: float, for_agent: float | None = None) -> None:
        is_open = self._opening.close()
        if is_open and self._connection.forked:
            return  # the parent process closes it
        _open_producers.discard(self)
        deadline = time.monotonic() + timeout
        if self.agent is not None:
            self.agent.stop(timeout if for_agent is None else for_agent)
        if is_open:
            self._disconnect(deadline - time.monotonic())

    def _disconnect(self, timeout: float = 0.0) -> None:
        deadline = time.monotonic() + timeout
        # Flush halves first: a half that is stored late needs a rollback.
        self._connection.flush(timeout)
        if self._fast_lane is not None:
            self._fast_lane.close(max(0.0, deadline - time.monotonic()))
        self._publisher.close(max(0.0, deadline - time.monotonic()))
        left = self._connection.close(deadline - time.monotonic())
        self._policy.close()
        if self._verifier is not None:
            self._verifier.close()
        if left:
            _log.warning(
                "group %s closed with %d records not acknowledged within %g s; checks repair it",
                self.group,
                left,
                timeout,
            )

    def _deadline(self, timeout: float | None) -> float:
        seconds = self._timeout if timeout is None else timeout
        return time.monotonic() + min(seconds, threading.TIMEOUT_MAX)

    def _unopened(self, deadline: float) -> Iterable[tuple[Future[Opened | None], float]]:
        """Return the wait for the connection; there is none once the producer is open."""
        return () if self._opening.is_open else self._opening.waits(deadline)

    def _prepared(self, messages: Iterable[Message]) -> list[Prepared]:
        """Make halves of messages; if one raises `MessageRefused`, none is stored."""
        return [self._prepare(message) for message in messages]

    def _prepare(self, message: Message) -> Prepared:
        check_message(message, self._names.prefix)
        half = message.to_half(self.group, _new_transaction_id(), time.time_ns() // 1_000_000)
        self._policy.check(half)
        if self._fast_lane is not None:
            half = self._fast_lane.name(half)
        record = half.to_record(self._names.half, self._choice.queue_of(message.order))
        check_size(half, record.headers, self._topics.half_max_bytes)
        return half, record

    def _questions(
        self, prepared: list[Prepared], deadline: float
    ) -> Iterator[tuple[Future[None], float]]:
        """Yield questions about real topics: the caller waits for each, for so many seconds.

        There are mostly none. Raises `MessageRefused` for a message that does not fit its topic.
        """
        topics = self._real_topics
        since = time.monotonic()
        if topics is None or not (doubted := topics.doubted(prepared, since)):
            return
        # Leave time for the half: where no broker answers, messages are not checked.
        until = (since + deadline) / 2
        while doubted and (seconds := until - time.monotonic()) > 0:
            self._connection.check_usable()
            asked = topics.look_up(doubted, until)
            yield asked, seconds
            if asked.done():
                asked.result()  # raises what stopped the question
            doubted = topics.doubted(prepared, since)
        topics.check(prepared, since)

    def _sending(self, prepared: list[Prepared], on_answered: Callable[[], object]) -> Sending:
        return Sending(self._connection, prepared, on_answered, self._roll_back)

    def _begun(self, sending: Sending, kind: Callable[..., T]) -> list[T]:
        """Return a transaction for each stored half; raises `HalfNotAcknowledged`."""
        confirm = None if self._verifier is None else self._confirm_by_hand
        begun = []
        for sent in sending.stored():
            message = _message_of(sent)
            fast = None if self._fast_lane is None else self._fast_lane.begin(sent, message)
            begun.append(kind(self._publisher, message, sent.half_id, confirm, fast, self._timeout))
        return begun

    def _confirm_by_hand(self, message: Message) -> None:
        """Verify a commit that the application sends without a block."""
        if self._verifier is not None:
            self._verifier.confirm(message)

    def _roll_back(self, sent: SentHalf) -> None:
        """End a half whose local transaction will not run."""
        self._publisher.end(_message_of(sent), sent.half_id, _NOT_RUN)


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
            left = max(0.0, until - time.monotonic())
            producer._close(left, left / 2)
        except Exception:
            _log.exception("the producer of group %s can't be closed", producer.group)


def _message_of(sent: SentHalf) -> Message:
    return Message.of_half(sent.half, sent.half_id)


def _new_transaction_id() -> str:
    """Return a random UUID of version 4, at a quarter of the cost of `str(uuid.uuid4())`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _nobody_answers(group: str) -> ListenerError:
    return ListenerError(
        f"group {group!r} has no listener: nobody would answer its checks, and what is not "
        "ended would be discarded",
        remedy="give one, or checks_elsewhere=True where another process of the group "
        "(`txresolver agent`) answers",
    )
