"""Sends halves: Kafka stores them before the local transaction begins.

`connection.py` gives each record to librdkafka, and its thread brings Kafka's answer. Next
station: `transaction.py` ends the transactions. The resolver reads the halves:
`resolver/resolve/source.py` plans that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ..errors import HalfNotAcknowledged
from ..protocol import Half, HalfId, Record
from .connection import Connection

#: A half, and the record to be stored for it.
Prepared = tuple[Half, Record]
#: Time in seconds to wait for room in librdkafka's queue before trying again.
ROOM_SECONDS = 0.005


class SentHalf:
    """A half on its way; Kafka answers with an `offset`, and its time, or an `error`."""

    __slots__ = ("error", "half", "offset", "queue", "stored_at_ms")

    def __init__(self, half: Half, queue: int) -> None:
        self.half = half
        self.queue = queue
        self.offset = -1
        self.stored_at_ms = 0
        self.error: Exception | None = None

    @property
    def half_id(self) -> HalfId:
        return HalfId(self.queue, self.offset)

    @property
    def is_stored(self) -> bool:
        return self.offset >= 0

    def take_answer(self, error: Any, message: Any) -> None:
        if error is not None:
            self.error = KafkaException(error)
        elif message.offset() is None:
            # A retry met an earlier success, whose offset the broker does not know: without an
            # offset no op can end the half.
            self.error = KafkaException(KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER))
        else:
            self.offset = message.offset()
            self.stored_at_ms = message.timestamp()[1]


class Sending:
    """The halves of one call: sent together, waited for once.

    The thread that serves acknowledgements calls `on_answered` when Kafka has answered for every
    half. The caller decides how to wait for it: a thread blocks, a task must not. After `abandon`,
    `on_abandoned(sent)` is called for each half that was stored or will be.
    """

    def __init__(
        self,
        connection: Connection,
        prepared: Sequence[Prepared],
        on_answered: Callable[[], object],
        on_abandoned: Callable[[SentHalf], None],
    ) -> None:
        self._connection = connection
        self._records = [record for _, record in prepared]
        self._halves = [SentHalf(half, record.partition) for half, record in prepared]
        self._sent_count = 0
        self._unanswered = len(prepared)
        self._on_answered = on_answered
        self._on_abandoned = on_abandoned
        self._abandoned = False
        self._lock = threading.Lock()
        if not prepared:
            on_answered()

    def send_rest(self, deadline: float) -> bool:
        """Send the halves that are left, without waiting; return False if the local queue is full.

        The caller then calls again after `ROOM_SECONDS`. `deadline` is in seconds of the monotonic
        clock. Raises `HalfNotAcknowledged` if a half can't be sent, or not before the deadline.
        """
        while self._sent_count < len(self._records):
            sent = self._halves[self._sent_count]
            try:
                record = self._records[self._sent_count]
                self._connection.produce(record, partial(self._answered, sent))
            except BufferError as error:
                if time.monotonic() > deadline:
                    raise _not_acknowledged(sent, error) from error
                return False
            except KafkaException as error:
                raise _not_acknowledged(sent, error) from error
            self._sent_count += 1
        return True

    def stored(self) -> list[SentHalf]:
        """Return all halves; raises `HalfNotAcknowledged` for the first half that is not stored."""
        for sent in self._halves:
            if not sent.is_stored:
                error = sent.error or KafkaException(KafkaError(KafkaError._TIMED_OUT))
                raise _not_acknowledged(sent, error) from error
        return self._halves

    def abandon(self) -> None:
        """Give up all halves: the stored ones, and those that may still be stored."""
        with self._lock:
            self._abandoned = True
            stored = [sent for sent in self._halves if sent.is_stored]
        for sent in stored:
            self._on_abandoned(sent)

    def _answered(self, sent: SentHalf, error: Any, message: Any) -> None:
        with self._lock:
            sent.take_answer(error, message)
            self._unanswered -= 1
            is_late = self._abandoned and sent.is_stored
            is_last = not self._unanswered
        if is_late:
            self._on_abandoned(sent)
        if is_last:
            self._connection.call_after_acknowledgements(self._on_answered)


def _not_acknowledged(sent: SentHalf, error: Exception) -> HalfNotAcknowledged:
    reason = error.args[0] if error.args else error
    why = reason.str() if isinstance(reason, KafkaError) else str(reason)
    return HalfNotAcknowledged(
        f"Kafka did not acknowledge the half of transaction {sent.half.transaction_id} for topic "
        f"{sent.half.topic} in queue {sent.queue}: {why}. The local transaction did not run; the "
        "half may be stored all the same, then its check finds no trace and is answered ROLLBACK",
        remedy="send the message again",
    )
