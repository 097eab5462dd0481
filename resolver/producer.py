"""`TransactionProducer`: half, local transaction, op."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .agent import Agent, AgentLimits
from .agent.outlet import SharedOutlet
from .connection import Connection, client_options
from .ending import EndHook, Ending
from .errors import ListenerError
from .groups import check_group
from .halves import HalfSender, SentHalf
from .listener import Answer, ask, check_listener, executes, unknown
from .message import Message
from .message_rules import check_message, check_size
from .ops import OpSender
from .protocol import Names, TransactionStatus
from .queues import read_queues
from .transaction import Transaction, TransactionSendResult, ending_all

__all__ = ["TransactionProducer"]

_log = logging.getLogger(__name__)
_NOT_RUN = Answer(TransactionStatus.ROLLBACK_MESSAGE, "stored after its sender gave up")


class TransactionProducer:
    """Sends messages that become visible exactly if a local transaction commits.

        with TransactionProducer("orders", "localhost:9092", OrderListener()) as producer:
            with producer.transaction(Message("orders.placed", b"...")) as tx:
                place_order(tx.transaction_id)      # commits; an exception rolls back

    | argument | meaning |
    | --- | --- |
    | group | the producer group, whose live members answer each other's checks |
    | listener | answers checks; `send_message_in_transaction` also runs its local transaction |
    | checks_elsewhere | True: no agent here, another process answers the group's checks |
    | topic_prefix | what the protocol's topics begin with, as the resolver's setting |
    | send_timeout_ms | how long to wait for Kafka: at the start, and for a half |
    | op_max_bytes, op_linger_ms | how ops are packed |
    | end_hooks | called with each `TransactionEnd`, the application's and the check's |
    | kafka | librdkafka options, passed through, save those that are ours |
    | check_..., executor | the agent's, see `TransactionAgent` |

    Starting it asks Kafka for the topics: `SendError` when they or the brokers are not there.
    Threads may share one. Make it after a fork, in each process (gunicorn: `post_fork`).
    """

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
        check_group(group)
        _check_answers(group, listener, checks_elsewhere)
        limits = AgentLimits(
            check_thread_pool_min_size,
            check_thread_pool_max_size,
            check_request_hold_max,
            check_timeout_ms,
        )
        self.group = group
        self._listener = listener
        self._names = Names(topic_prefix)
        self._timeout = send_timeout_ms / 1000
        options = client_options(bootstrap_servers, kafka, group)
        self._queues = read_queues(options, self._names, self._timeout)
        batch_bytes = min(self._queues.half_max_bytes, self._queues.op_max_bytes)
        self._connection = Connection(options, group, batch_bytes)
        self._ops = OpSender(self._connection, group, self._names.op, op_max_bytes, op_linger_ms)
        self._ending = Ending(self._ops, group, end_hooks)
        self._halves = HalfSender(self._connection, self._queues.count, self._roll_back_late)
        self.agent: Agent | None = None
        if listener is not None and not checks_elsewhere:
            outlet = SharedOutlet(self._ending, self._queues.count)
            self.agent = Agent(group, listener, self._names, options, outlet, limits, executor)
            self.agent.start()

    def __repr__(self) -> str:
        return f"<TransactionProducer of group {self.group!r}>"

    def __enter__(self) -> TransactionProducer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def send_message_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store the half, run the listener's local transaction with `arg`, send its op.

        Returns when the local transaction has; `timeout` (seconds) is for the half. Raises
        `MessageRefused` before anything is stored, `HalfNotAcknowledged` before the local
        transaction runs. What the local transaction raises is UNKNOWN, in the result's remark.
        """
        if not executes(self._listener):
            raise ListenerError(
                f"group {self.group!r} has no listener with execute_local_transaction; give one, "
                "or use `with producer.transaction(message)`"
            )
        transaction = self.begin(message, timeout)
        try:
            answer = ask(self._listener.execute_local_transaction, transaction.message, arg)
        except BaseException as error:
            transaction.end(unknown(f"interrupted by {type(error).__name__}"))
            raise
        transaction.end(answer)
        return transaction.result()

    @contextmanager
    def transaction(self, message: Message, timeout: float | None = None) -> Iterator[Transaction]:
        """Store the half, run the block, commit; an exception rolls back and goes on.

        The local transaction has to be committed when the block ends, by its last statement.
        """
        transaction = self.begin(message, timeout)
        with ending_all([transaction]):
            yield transaction

    @contextmanager
    def transactions(
        self, messages: Iterable[Message], timeout: float | None = None
    ) -> Iterator[list[Transaction]]:
        """Like `transaction`, with many messages for one local transaction, sent together."""
        begun = self.begin_all(list(messages), timeout)
        with ending_all(begun):
            yield begun

    def begin(self, message: Message, timeout: float | None = None) -> Transaction:
        """Store the half and return its transaction, for the caller to end."""
        return self.begin_all([message], timeout)[0]

    def begin_all(
        self, messages: Sequence[Message], timeout: float | None = None
    ) -> list[Transaction]:
        """Store many halves, waiting once; one that fails takes the others with it."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        prepared = [self._prepare(message) for message in messages]
        sent: list[SentHalf] = []
        begun: list[Transaction] = []
        try:
            for half, record in prepared:
                sent.append(self._halves.send(half, record, deadline))
            for one in sent:
                begun.append(self._begun(one, self._halves.wait(one, deadline)))
        except BaseException:
            self._give_up(sent)
            raise
        return begun

    def close(self, timeout: float = 30.0) -> None:
        """Let the agent finish, send what is left, wait for it; at most `timeout` seconds."""
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

    def _prepare(self, message: Message) -> tuple[Any, Any]:
        check_message(message, self._names.prefix)
        half = message.to_half(self.group, str(uuid.uuid4()), time.time_ns() // 1_000_000)
        record = half.to_record(self._names.half, self._halves.next_queue())
        check_size(half, record.headers, self._queues.half_max_bytes)
        return half, record

    def _begun(self, sent: SentHalf, offset: int) -> Transaction:
        message = Message.of_half(sent.half, sent.queue, offset)
        return Transaction(self._ending, message, sent.queue, offset)

    def _give_up(self, sent: Sequence[SentHalf]) -> None:
        """Roll back what was stored of a failed `begin_all`, at once or when it turns up."""
        for one in sent:
            if self._halves.abandon(one) and one.error is None:
                self._roll_back_late(one)

    def _roll_back_late(self, sent: SentHalf) -> None:
        message = Message.of_half(sent.half, sent.queue, sent.offset)
        self._ending.end(message, sent.queue, sent.offset, _NOT_RUN)


def _check_answers(group: str, listener: Any, checks_elsewhere: bool) -> None:
    if listener is not None:
        check_listener(listener)
    elif not checks_elsewhere:
        raise ListenerError(
            f"group {group!r} has no listener: nobody would answer its checks, and what is not "
            "ended would be discarded. Give one, or checks_elsewhere=True where another process "
            "of the group (`txresolver agent`) answers"
        )
