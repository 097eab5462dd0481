"""Sending halves: stored by Kafka before the local transaction begins."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from .connection import Connection, wait_for_room
from .errors import HalfNotAcknowledged
from .protocol import Half, Record

#: Halves in a row for one queue: their ops are packed into one record.
_STICKY = 32


class SentHalf:
    """A half on its way; `offset` is set when it is acknowledged."""

    __slots__ = ("abandoned", "arrived", "error", "half", "offset", "queue", "settled")

    def __init__(self, half: Half, queue: int) -> None:
        self.half = half
        self.queue = queue
        self.offset = -1
        self.error: Exception | None = None
        self.settled = False
        self.abandoned = False
        # A bare lock is the cheapest thing to wait for; the acknowledgement releases it.
        self.arrived = threading.Lock()
        self.arrived.acquire()


class HalfSender:
    """Sends halves over the queues in turn; any number of threads may wait at once.

    `on_late(sent)` is called for a half that Kafka stored after its sender gave up.
    """

    def __init__(
        self, connection: Connection, queues: int, on_late: Callable[[SentHalf], None]
    ) -> None:
        self._connection = connection
        self._queues = queues
        self._on_late = on_late
        self._turns = itertools.count(random.randrange(queues) * _STICKY)  # noqa: S311
        self._lock = threading.Lock()

    def next_queue(self) -> int:
        return next(self._turns) // _STICKY % self._queues

    def send(self, half: Half, record: Record, deadline: float) -> SentHalf:
        """Send without waiting for the acknowledgement; raises `HalfNotAcknowledged`."""
        sent = SentHalf(half, record.partition)
        acknowledged = partial(self._acknowledged, sent)
        while True:
            try:
                self._connection.produce(record, acknowledged)
                return sent
            except BufferError as error:
                try:
                    wait_for_room(deadline)
                except BufferError:
                    raise _not_acknowledged(sent, error) from error
            except KafkaException as error:
                raise _not_acknowledged(sent, error) from error

    def wait(self, sent: SentHalf, deadline: float) -> int:
        """Wait for the acknowledgement, return the offset; raises `HalfNotAcknowledged`."""
        try:
            sent.arrived.acquire(timeout=max(0.0, deadline - time.monotonic()))
        except BaseException:
            self.abandon(sent)
            raise
        if not self.abandon(sent):
            timed_out = KafkaException(KafkaError(KafkaError._TIMED_OUT))
            raise _not_acknowledged(sent, timed_out) from timed_out
        if sent.error is not None:
            raise _not_acknowledged(sent, sent.error) from sent.error
        return sent.offset

    def abandon(self, sent: SentHalf) -> bool:
        """Give up on a half that has no answer yet; returns whether it had one."""
        with self._lock:
            if sent.abandoned:
                return False
            sent.abandoned = not sent.settled
            return sent.settled

    def _acknowledged(self, sent: SentHalf, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None:
                sent.error = KafkaException(error)
            elif message.offset() < 0:
                # A retry met an earlier success that the broker remembers without its place.
                sent.error = KafkaException(KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER))
            else:
                sent.offset = message.offset()
            sent.settled = True
            late = sent.abandoned and sent.error is None
        sent.arrived.release()
        if late:
            self._on_late(sent)


def _not_acknowledged(sent: SentHalf, error: Exception) -> HalfNotAcknowledged:
    reason = error.args[0] if error.args else error
    why = reason.str() if isinstance(reason, KafkaError) else str(reason)
    return HalfNotAcknowledged(
        f"Kafka did not acknowledge the half of transaction {sent.half.transaction_id} for topic "
        f"{sent.half.topic} in queue {sent.queue}: {why}. The local transaction did not run; the "
        "half may be stored all the same, then its check finds no trace and is answered ROLLBACK"
    )
