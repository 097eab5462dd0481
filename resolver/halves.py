"""Sending halves: stored by Kafka before the local transaction begins."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from .connection import Connection
from .errors import HalfNotAcknowledged
from .protocol import Half, Record

#: How long to wait for room in librdkafka's queue before trying again.
ROOM_SECONDS = 0.005
#: Halves in a row for one queue: their ops are packed into one record.
_STICKY = 32


class SentHalf:
    """A half on its way; Kafka's answer is an `offset` or an `error`."""

    __slots__ = ("error", "half", "offset", "queue")

    def __init__(self, half: Half, queue: int) -> None:
        self.half = half
        self.queue = queue
        self.offset = -1
        self.error: Exception | None = None

    @property
    def is_stored(self) -> bool:
        return self.offset >= 0

    def take_answer(self, error: Any, message: Any) -> None:
        if error is not None:
            self.error = KafkaException(error)
        elif message.offset() < 0:
            # A retry met an earlier success that the broker remembers without its place.
            self.error = KafkaException(KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER))
        else:
            self.offset = message.offset()


class Sending:
    """The halves of one call: sent together, waited for once.

    `on_answered` is called when Kafka has answered for the last of them, by the thread that serves
    acknowledgements. So how to wait is the caller's: a thread blocks, a task must not.
    `on_late(sent)` is called for each half that was or will be stored after `abandon`.
    """

    def __init__(
        self,
        connection: Connection,
        prepared: Sequence[tuple[Half, Record]],
        on_answered: Callable[[], object],
        on_late: Callable[[SentHalf], None],
    ) -> None:
        self._connection = connection
        self._records = [record for _, record in prepared]
        self._halves = [SentHalf(half, record.partition) for half, record in prepared]
        self._handed_over = 0
        self._unanswered = len(prepared)
        self._on_answered = on_answered
        self._on_late = on_late
        self._abandoned = False
        self._lock = threading.Lock()
        if not prepared:
            on_answered()

    def hand_over(self, deadline: float) -> bool:
        """Send, without waiting; False if the local queue is full: go on after `ROOM_SECONDS`.

        Raises `HalfNotAcknowledged` where one can't be sent, or none in time.
        """
        while self._handed_over < len(self._records):
            sent = self._halves[self._handed_over]
            try:
                record = self._records[self._handed_over]
                self._connection.produce(record, partial(self._answered, sent))
            except BufferError as error:
                if time.monotonic() > deadline:
                    raise _not_acknowledged(sent, error) from error
                return False
            except KafkaException as error:
                raise _not_acknowledged(sent, error) from error
            self._handed_over += 1
        return True

    def stored(self) -> list[SentHalf]:
        """Return all halves; raises `HalfNotAcknowledged` for the first that is not stored."""
        for sent in self._halves:
            if not sent.is_stored:
                error = sent.error or KafkaException(KafkaError(KafkaError._TIMED_OUT))
                raise _not_acknowledged(sent, error) from error
        return self._halves

    def abandon(self) -> None:
        """Give all up, those that are stored and those that still may be."""
        with self._lock:
            self._abandoned = True
            stored = [sent for sent in self._halves if sent.is_stored]
        for sent in stored:
            self._on_late(sent)

    def _answered(self, sent: SentHalf, error: Any, message: Any) -> None:
        with self._lock:
            sent.take_answer(error, message)
            self._unanswered -= 1
            is_late = self._abandoned and sent.is_stored
            is_last = not self._unanswered
        if is_late:
            self._on_late(sent)
        if is_last:
            self._connection.wake(self._on_answered)


class QueueTurns:
    """Which queue the next half goes to: all in turn, some halves in a row for each."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._turns = itertools.count(random.randrange(queues) * _STICKY)  # noqa: S311

    def next_queue(self) -> int:
        return next(self._turns) // _STICKY % self._queues


def _not_acknowledged(sent: SentHalf, error: Exception) -> HalfNotAcknowledged:
    reason = error.args[0] if error.args else error
    why = reason.str() if isinstance(reason, KafkaError) else str(reason)
    return HalfNotAcknowledged(
        f"Kafka did not acknowledge the half of transaction {sent.half.transaction_id} for topic "
        f"{sent.half.topic} in queue {sent.queue}: {why}. The local transaction did not run; the "
        "half may be stored all the same, then its check finds no trace and is answered ROLLBACK"
    )
