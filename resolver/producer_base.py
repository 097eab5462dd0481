"""What `TransactionProducer` and `AsyncTransactionProducer` share: everything but the waiting."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from .agent import Agent, AgentLimits
from .agent.checks import check_consumer_options
from .agent.limits import check_whole
from .agent.outlet import SharedOutlet
from .connection import Connection, client_options
from .ending import EndHook, Ending
from .errors import ListenerError
from .groups import check_group
from .halves import QueueTurns, Sending, SentHalf
from .listener import Answer
from .message import Message
from .message_rules import check_message, check_size
from .ops import OpSender
from .protocol import Half, Names, Record, TransactionStatus
from .queues import Queues, read_queues
from .transaction import Transaction

_log = logging.getLogger(__name__)
_NOT_RUN = Answer(TransactionStatus.ROLLBACK_MESSAGE, "stored after its sender gave up")


class ProducerBase:
    """Checks its arguments when it is made; `_open` then connects to Kafka, and blocks."""

    _queues: Queues
    _connection: Connection
    _ops: OpSender
    _ending: Ending
    _turns: QueueTurns

    def __init__(
        self,
        group: str,
        bootstrap_servers: str,
        listener: Any = None,
        *,
        checks_elsewhere: bool = False,
        topic_prefix: str = "tx.",
        send_timeout_ms: int = 10_000,
        op_max_bytes: int = 4096,
        op_linger_ms: int = 10,
        end_hooks: Iterable[EndHook] = (),
        kafka: Mapping[str, Any] | None = None,
        check_thread_pool_min_size: int = 1,
        check_thread_pool_max_size: int = 5,
        check_request_hold_max: int = 2000,
        check_timeout_ms: int = 10_000,
        executor: Executor | None = None,
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
        check_whole("send_timeout_ms", send_timeout_ms, 1)
        check_whole("op_max_bytes", op_max_bytes, 1)
        check_whole("op_linger_ms", op_linger_ms, 0)
        self._executor = executor
        self._names = Names(topic_prefix)
        self._timeout = send_timeout_ms / 1000
        self._packing = (op_max_bytes, op_linger_ms)
        self._hooks = tuple(end_hooks)
        self._options = client_options(bootstrap_servers, kafka, group)
        if self._answers_checks:
            check_consumer_options(self._options, group)
        self._made()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.group!r}>"

    def _made(self) -> None:
        """Go on when the arguments are known to be good."""
        raise NotImplementedError

    def _open(self, listener: Any) -> None:
        """Connect to Kafka; `listener` is asked by the agent's threads."""
        self._queues = read_queues(self._options, self._names, self._timeout)
        self._turns = QueueTurns(self._queues.count)
        batch_bytes = min(self._queues.half_max_bytes, self._queues.op_max_bytes)
        self._connection = Connection(self._options, self.group, batch_bytes)
        self._ops = OpSender(self._connection, self.group, self._names.op, *self._packing)
        self._ending = Ending(self._ops, self.group, self._hooks)
        if self._answers_checks:
            outlet = SharedOutlet(self._ending, self._queues.count)
            self.agent = Agent(
                self.group, listener, self._names, self._options, outlet, self._limits,
                self._executor,
            )  # fmt: skip
            self.agent.start()

    def _close(self, timeout: float) -> None:
        if self._connection.forked:
            return  # it is the parent's to close
        deadline = time.monotonic() + timeout
        if self.agent is not None:
            self.agent.stop(timeout)
        # First the halves: of one that turns up late, a rollback has to be sent.
        self._connection.flush(deadline - time.monotonic())
        self._ops.close(max(0.0, deadline - time.monotonic()))
        left = self._connection.close(deadline - time.monotonic())
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

    def _sending(self, messages: Iterable[Message], on_answered: Callable[[], object]) -> Sending:
        """Make halves of messages; `MessageRefused` for one of them stores none."""
        prepared = [self._prepare(message) for message in messages]
        return Sending(self._connection, prepared, on_answered, self._roll_back)

    def _prepare(self, message: Message) -> tuple[Half, Record]:
        check_message(message, self._names.prefix)
        half = message.to_half(self.group, _new_transaction_id(), time.time_ns() // 1_000_000)
        record = half.to_record(self._names.half, self._turns.next_queue())
        check_size(half, record.headers, self._queues.half_max_bytes)
        return half, record

    def _begun(self, sending: Sending) -> list[Transaction]:
        """Return the transactions of what is stored; raises `HalfNotAcknowledged`."""
        return [
            Transaction(self._ending, _message_of(sent), sent.queue, sent.offset)
            for sent in sending.stored()
        ]

    def _roll_back(self, sent: SentHalf) -> None:
        """End a half whose local transaction will not run."""
        self._ending.end(_message_of(sent), sent.queue, sent.offset, _NOT_RUN)


def _message_of(sent: SentHalf) -> Message:
    return Message.of_half(sent.half, sent.queue, sent.offset)


def _new_transaction_id() -> str:
    """Return a random UUID of version 4, for a quarter of what `str(uuid.uuid4())` costs."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _nobody_answers(group: str) -> ListenerError:
    return ListenerError(
        f"group {group!r} has no listener: nobody would answer its checks, and what is not "
        "ended would be discarded. Give one, or checks_elsewhere=True where another process "
        "of the group (`txresolver agent`) answers"
    )
