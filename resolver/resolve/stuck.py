"""The watch of op partitions that a producer's open transaction holds up.

A fast producer stores its ops in a Kafka transaction. While that is open, nobody reads what lies
behind its first record: the ends of all groups, fences, and the records of revocations. A producer
that sleeps would hold them up until Kafka ends its transaction, which may take a quarter of an
hour. The transaction's first record names a half, and the half names the producer's fast id. So it
can be revoked, which aborts the transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ..errors import MalformedHalf, MalformedOp, TxResolverError
from ..kafka.clients import admin_client, reader_config
from ..kafka.offset_answers import led_partitions
from ..kafka.partition_offsets import StableEnd, stable_ends
from ..protocol import Names, decode_half, decode_op
from ..protocol.headers import headers_of
from ..settings import Settings
from .revocations import WATCH
from .revoker import Revoker
from .vital_thread import VitalThread

logger = logging.getLogger(__name__)

#: Seconds between two looks.
_LOOK_SECONDS = 0.5
#: Seconds since the last fast half after which nobody looks any more. A transaction is open for at
#: most `transaction.max.timeout.ms`, a quarter of an hour by default.
_LATELY_SECONDS = 3_600.0
#: Seconds in which a broker tells a new client of the op topic.
_HEAR_SECONDS = 1.0
#: Seconds for a record that is there to be read.
_READ_SECONDS = 2.0
#: Seconds without an answer from some partition after which a new client asks: the old one may have
#: forgotten a broker.
_CLIENT_SECONDS = 10.0
#: Seconds between two warnings about a partition.
_WARN_SECONDS = 60.0


class OpRecordId(NamedTuple):
    """The queue and the offset of a record of the op topic."""

    queue: int
    offset: int


class Standstill:
    """Tells which partitions stand still, by their ends at each look.

    A partition's records from its stable end on can't be read yet. If the first of them was there
    for `seconds`, its transaction has been open for as long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def look(self, ends: Mapping[int, StableEnd], now: float) -> list[OpRecordId]:
        """Return the first records of the transactions that hold up records behind them."""
        return [
            OpRecordId(queue, stable)
            for queue, (stable, end) in ends.items()
            if self._end_then(queue, end, now) > stable and end > stable + 1
        ]

    def _end_then(self, queue: int, end: int, now: float) -> int:
        """Return where the partition ended `seconds` ago; 0 if nobody has looked by then."""
        seen = self._seen.setdefault(queue, deque())
        seen.append((now, end))
        while len(seen) > 1 and seen[1][0] <= now - self._seconds:
            seen.popleft()
        return seen[0][1] if seen[0][0] <= now - self._seconds else 0


class StuckWatch(VitalThread):
    """Has those producers revoked that hold up an op partition for `stuck_ms`.

    Without it a sleeping producer would hold up all groups. It looks only while fast halves were
    seen lately.
    """

    def __init__(
        self, settings: Settings, revoker: Revoker, failed: Callable[[TxResolverError], None]
    ) -> None:
        super().__init__("txresolver-stuck", failed)
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._revoker = revoker
        self._changed = threading.Condition()
        self._stopped = False
        self._until = 0.0
        self._client: AdminClient | None = None
        self._answered_at = 0.0
        self._standstill = Standstill(settings.stuck_ms / 1_000)
        self._fast_ids: dict[OpRecordId, str | None] = {}
        self._warn_at: dict[int, float] = {}

    def see_fast(self) -> None:
        """Take note of a fast half: it may be in a transaction soon."""
        with self._changed:
            self._until = time.monotonic() + _LATELY_SECONDS
            self._changed.notify()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self.ident is not None:
            self.join()

    def _work(self) -> None:
        """Look, as long as there is something to look for."""
        while self._wait():
            self._look()

    def _wait(self) -> bool:
        """Wait until it is time to look; False when stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, _LOOK_SECONDS)
            if time.monotonic() >= self._until:
                self._client = None
                self._changed.wait_for(lambda: self._stopped or time.monotonic() < self._until)
            return not self._stopped

    def _look(self) -> None:
        first_records = self._standstill.look(self._ends(), time.monotonic())
        self._fast_ids = {
            first_record: self._fast_id(first_record) for first_record in first_records
        }
        self._revoker.want({WATCH: sorted(filter(None, self._fast_ids.values()))})
        for first_record, fast_id in self._fast_ids.items():
            self._warn(first_record, fast_id)

    def _ends(self) -> dict[int, StableEnd]:
        now = time.monotonic()
        if self._client is None:
            client = admin_client(self._settings)
            try:
                led_partitions(client, {self._names.op}, _HEAR_SECONDS)
            except KafkaException:
                return {}
            self._client, self._answered_at = client, now
        ends = stable_ends(self._client, self._names.op, self._settings.queues)
        if len(ends) == self._settings.queues:
            self._answered_at = now
        elif now - self._answered_at > _CLIENT_SECONDS:
            self._client = None
        return ends

    def _fast_id(self, first_record: OpRecordId) -> str | None:
        """Return the fast id of the producer whose open transaction begins with this record.

        Return "" if no fast producer has opened it, None if that can't be read now.
        """
        known = self._fast_ids.get(first_record)
        if known is not None:
            return known
        try:
            with closing(self._consumer()) as consumer:
                return self._read_fast_id(consumer, first_record)
        except KafkaException:  # a broker is away; the next look tries again
            return None

    def _read_fast_id(self, consumer: Consumer, first_record: OpRecordId) -> str | None:
        """Return the fast id of the first half that the op names: all are of one producer."""
        op_message = _read(consumer, TopicPartition(self._names.op, *first_record))
        if op_message is None:
            return None
        try:
            op = decode_op(op_message.value(), headers_of(op_message) or [])
        except MalformedOp:
            return ""
        if not op.delivered or not op.elements:
            return ""
        element = op.elements[0]
        half_partition = TopicPartition(self._names.half, first_record.queue, element.offset)
        half_message = _read(consumer, half_partition)
        if half_message is None:
            return None
        try:
            headers = headers_of(half_message) or []
            key, value = half_message.key(), half_message.value()
            half = decode_half(key, value, headers, self._names.prefix)
        except MalformedHalf:
            return ""
        # Only its producer knows a half's transaction id: nobody else can have it revoked.
        is_its_own = half.transaction_id == element.transaction_id
        return half.fast_id or "" if is_its_own else ""

    def _consumer(self) -> Consumer:
        ours = {
            "auto.offset.reset": "error",
            # The transaction is open: its records are not committed.
            "isolation.level": "read_uncommitted",
            "queued.min.messages": 1,
        }
        return Consumer(reader_config(self._settings, **ours))

    def _warn(self, first_record: OpRecordId, fast_id: str | None) -> None:
        now = time.monotonic()
        if fast_id is None or now < self._warn_at.get(first_record.queue, 0.0):
            return
        self._warn_at[first_record.queue] = now + _WARN_SECONDS
        remedy = (
            f"revoking {fast_id}, which has opened it"
            if fast_id
            else "no fast producer has opened it; see who may write to this topic"
        )
        logger.warning(
            "partition %d of %s can't be read beyond offset %d, where a transaction is open: %s",
            first_record.queue, self._names.op, first_record.offset, remedy,
        )  # fmt: skip


def _read(consumer: Consumer, partition: TopicPartition) -> Any:
    """Return the record at the partition's offset; None if it does not come."""
    consumer.assign([partition])
    message = consumer.poll(_READ_SECONDS)
    if message is None or message.error() is not None or message.offset() != partition.offset:
        return None
    return message
