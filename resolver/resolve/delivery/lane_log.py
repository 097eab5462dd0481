"""Reading the lane, `tx.parked`: its records under `read_committed`, up to its present end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ...kafka.clients import WHOLE_BYTES, client_config
from ...protocol import HalfId, Names, StoredRecord
from ...protocol.headers import headers_of
from ...settings import Settings

_TIMEOUT_SECONDS = 30.0
#: Longest wait for a further record in seconds; then reading fails. A transaction that a former
#: producer left open hides the lane's end. It is aborted when its transactional id is taken over,
#: or after `kafka_transaction_timeout_ms`.
_HIDDEN_SECONDS = 30.0
_POLL_SECONDS = 0.2


class LaneLog:
    """The one partition of the lane."""

    def __init__(self, settings: Settings) -> None:
        names = Names(settings.topic_prefix)
        self._settings = settings
        self._group = names.reader
        self._topic = names.parked
        self._halves = names.half

    def bounds(self, seconds: float = _TIMEOUT_SECONDS) -> tuple[int, int]:
        """Return the first record's offset and the end, open transactions included.

        Our own records may stand behind an open transaction.
        """
        return self._bounds(TopicPartition(self._topic, 0), seconds)

    def has_half(self, half_id: HalfId) -> bool:
        """Whether the half topic still has a half."""
        low, high = self._bounds(TopicPartition(self._halves, half_id.queue), _TIMEOUT_SECONDS)
        return low <= half_id.offset < high

    def _bounds(self, place: TopicPartition, seconds: float) -> tuple[int, int]:
        with closing(self._consumer("read_uncommitted")) as consumer:
            low, high = consumer.get_watermark_offsets(place, seconds)
            return int(low), int(high)

    def read(self, begin: int, end: int) -> Iterator[StoredRecord]:
        """Return the records between two offsets; raises `KafkaException` if they can't be read."""
        if begin >= end:
            return
        with closing(self._consumer("read_committed")) as consumer:
            consumer.assign([TopicPartition(self._topic, 0, begin)])
            give_up_at = time.monotonic() + _HIDDEN_SECONDS
            while begin < end:
                message = consumer.poll(_POLL_SECONDS)
                if message is not None and (after := _read_to(message)) > begin:
                    begin, give_up_at = after, time.monotonic() + _HIDDEN_SECONDS
                    if message.error() is None and begin <= end:
                        yield _stored(message)
                if time.monotonic() > give_up_at:
                    said = f"the end of {self._topic}, {end}, can't be read: {begin} is next"
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said))

    def _consumer(self, isolation: str) -> Consumer:
        ours = {
            "group.id": self._group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # ms that an answer waits for records: the partition's end comes with the next answer.
            "fetch.wait.max.ms": 10,
            "fetch.message.max.bytes": WHOLE_BYTES,
        }
        return Consumer(client_config(self._settings, **ours))


def _read_to(message: Message) -> int:
    """Return the offset after the message; -1 if the message says nothing of it."""
    error, offset = message.error(), message.offset()
    if error is None:
        return int(offset or 0) + 1
    return int(offset or 0) if error.code() == KafkaError._PARTITION_EOF else -1


def _stored(message: Message) -> StoredRecord:
    _, stored_at_ms = message.timestamp()
    return StoredRecord(
        int(message.offset() or 0),
        stored_at_ms,
        message.key(),
        message.value(),
        headers_of(message),
    )
