"""Makes the halves of a producer's messages, and a `Transaction` for each half that is stored.

Nothing here waits for Kafka's answers: the producers do, by a thread or a task. `Message.to_half`
and `Message.of_half` only copy fields between a message and its half.

Next station: `half_sender.py` stores the halves that are made here.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from ..protocol import Names, TransactionStatus
from .client_options import BATCH_BYTES
from .connection import Connection
from .fast import FastLane, FastLimits
from .half_sender import Prepared, Sending, SentHalf
from .message import Message
from .message_rules import MARGIN_BYTES, check_message, check_size
from .op_publisher import OpPublisher
from .policy_follower import PolicyFollower
from .producer_settings import ProducerSettings
from .queue_choice import QueueChoice
from .real_topics import RealTopics
from .reported_state import ReportedState
from .topic_limits import TopicLimits
from .transaction import Transaction

_log = logging.getLogger(__name__)
_NOT_RUN = ReportedState(TransactionStatus.ROLLBACK_MESSAGE, "its sender gave up")
T = TypeVar("T", bound=Transaction)


class TransactionFactory:
    """Makes halves of messages, and a transaction for each half that is stored.

    It has the Kafka clients of one producer, and rolls back halves whose caller gave up. Threads
    may share it.
    """

    def __init__(
        self,
        group: str,
        names: Names,
        options: Mapping[str, Any],
        settings: ProducerSettings,
        limits: TopicLimits,
    ) -> None:
        self._group = group
        self._names = names
        self._timeout = settings.send_timeout_ms / 1000
        self._half_max_bytes = limits.half_max_bytes
        self._choice = QueueChoice(limits.queues, one_queue=settings.fast)
        batch_bytes = min(limits.half_max_bytes, limits.op_max_bytes)
        self._connection = Connection(options, group, batch_bytes)
        self._policy = PolicyFollower(options, group, names.policy)
        self._policy.read(self._timeout)
        self._connection.do_beside(self._policy.look)
        self._real_topics: RealTopics | None = None
        if settings.check_real_topics:
            cache_seconds = settings.real_topic_cache_ms / 1000
            self._real_topics = RealTopics(options, group, cache_seconds, limits.half_max_bytes)
        packing = (settings.op_max_bytes, settings.op_linger_ms)
        self.publisher = OpPublisher(
            self._connection, group, names.op, *packing, settings.end_hooks
        )
        self._fast_lane: FastLane | None = None
        if settings.fast:
            fast_limits = FastLimits(
                linger=settings.fast_linger_ms / 1000,
                immunity=settings.fast_immunity_ms / 1000,
                batch_bytes=min(batch_bytes, BATCH_BYTES),
                op_bytes=limits.op_max_bytes - MARGIN_BYTES,
            )
            self._fast_lane = FastLane(options, group, names, fast_limits, self.publisher)

    @property
    def forked(self) -> bool:
        """Whether this is a copy in a fork, which must not be used."""
        return self._connection.forked

    def wait_fast(self, timeout: float) -> None:
        """Wait until commits can be fast, up to `timeout` seconds; return at once if none are."""
        if self._fast_lane is not None:
            self._fast_lane.wait_ready(timeout)

    def prepare(self, messages: Iterable[Message]) -> list[Prepared]:
        """Make halves of messages; if one raises `MessageRefused`, none is stored."""
        return [self._prepare(message) for message in messages]

    def _prepare(self, message: Message) -> Prepared:
        check_message(message, self._names.prefix)
        half = message.to_half(self._group, _new_transaction_id(), time.time_ns() // 1_000_000)
        self._policy.check(half)
        if self._fast_lane is not None:
            half = self._fast_lane.name(half)
        record = half.to_record(self._names.half, self._choice.queue_of(message.queue_key))
        check_size(half, record.headers, self._half_max_bytes)
        return half, record

    def topic_questions(
        self, prepared: list[Prepared], deadline: float
    ) -> Iterable[tuple[Future[None], float]]:
        """Return questions about real topics, each with the seconds to wait for its answer.

        Mostly there are none. Iterating raises `MessageRefused` for a message that does not fit its
        topic.
        """
        if self._real_topics is None:
            return ()
        return self._real_topics.questions(prepared, deadline, self._connection.check_usable)

    def new_sending(self, prepared: list[Prepared], on_answered: Callable[[], object]) -> Sending:
        """Return an unsent `Sending` of halves; it calls `on_answered` when Kafka has answered."""
        return Sending(self._connection, prepared, on_answered, self._roll_back)

    def transactions(
        self, sending: Sending, kind: Callable[..., T], confirm: Callable[[Message], None] | None
    ) -> list[T]:
        """Return a transaction of this `kind` for each stored half; raises `HalfNotAcknowledged`.

        `confirm` verifies a commit that is sent by hand, and raises if it must not be sent. None:
        nothing is verified.
        """
        fast_lane = self._fast_lane  # None: no commit of this producer is fast
        begun = []
        for sent in sending.stored():
            message = _message_of(sent)
            fast = None if fast_lane is None else fast_lane.begin(sent, message)
            begun.append(kind(self.publisher, message, sent.half_id, confirm, fast, self._timeout))
        return begun

    def _roll_back(self, sent: SentHalf) -> None:
        """End a half whose local transaction will not run."""
        self.publisher.end(_message_of(sent), sent.half_id, _NOT_RUN)

    def close(self, timeout: float) -> None:
        """Send the remaining records, and wait up to `timeout` seconds for them."""
        deadline = time.monotonic() + timeout
        # Flush halves first: a half that is stored late needs a rollback.
        self._connection.flush(timeout)
        if self._fast_lane is not None:
            self._fast_lane.close(max(0.0, deadline - time.monotonic()))
        self.publisher.close(max(0.0, deadline - time.monotonic()))
        unacknowledged = self._connection.close(deadline - time.monotonic())
        self._policy.close()
        if unacknowledged:
            _log.warning(
                "group %s closed with %d records not acknowledged within %g s; checks repair it",
                self._group,
                unacknowledged,
                timeout,
            )


def _message_of(sent: SentHalf) -> Message:
    return Message.of_half(sent.half, sent.half_id)


def _new_transaction_id() -> str:
    """Return a random UUID of version 4, at a quarter of the cost of `str(uuid.uuid4())`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
