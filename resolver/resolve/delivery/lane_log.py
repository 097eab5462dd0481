"""Reading the lane, `tx.parked`: its records under `read_committed`, up to its present end.

A leader that was cut off from the other brokers shows an older lane, and can't know it. So a record
is written first: only the present leader acknowledges it. Whoever has this record has all that was
committed before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from ...kafka.clients import WHOLE_BYTES, client_config, reader_config
from ...protocol import LANE_END, HalfId, Names, StoredRecord, release_record
from ...protocol.headers import headers_of
from ...settings import Settings

#: Seconds in which Kafka has to tell the lane's bounds, and to show a further record.
_TIMEOUT_SECONDS = 30.0
#: Seconds until a second client writes the record that marks the end, and their growth from one
#: client to the next. A client stays with a leader that was cut off.
_SECOND_CLIENT_SECONDS, _GROWTH = 2.0, 1.5
_POLL_SECONDS = 0.2


class LaneLog:
    """The one partition of the lane."""

    def __init__(self, settings: Settings) -> None:
        names = Names(settings.topic_prefix)
        self._settings = settings
        self._partition = TopicPartition(names.parked, 0)
        self._halves = names.half
        self._end_record = release_record(LANE_END, names)

    def bounds(self, seconds: float = _TIMEOUT_SECONDS) -> tuple[int, int]:
        """Return the first record's offset, and the end: all that was committed is before it.

        Raises `KafkaException` if Kafka does not tell them within `seconds` each.
        """
        end = self.end(seconds)
        return self._bounds(self._partition, seconds)[0], end

    def end(self, seconds: float) -> int:
        """Write the record that marks the end, and return the offset after it.

        The record is in no transaction: written late or twice, it does no harm. Raises
        `KafkaException` if Kafka does not take it within `seconds`.
        """
        give_up_at = time.monotonic() + seconds
        next_at, pause = 0.0, _SECOND_CLIENT_SECONDS
        with ExitStack() as stack:
            writers: list[_EndWriter] = []
            while (now := time.monotonic()) < give_up_at:
                if now >= next_at:
                    writers.append(stack.enter_context(self._writing_the_end(seconds)))
                    next_at, pause = now + pause, pause * _GROWTH
                for writer in writers:
                    writer.producer.poll(_POLL_SECONDS / len(writers))
                    if writer.offset is not None:
                        return writer.offset + 1
                errors = [writer.error for writer in writers if writer.error is not None]
                if len(errors) == len(writers):
                    raise KafkaException(errors[0])
        raise _timed_out(f"no leader of {self._partition.topic} takes records")

    @contextmanager
    def _writing_the_end(self, seconds: float) -> Iterator[_EndWriter]:
        """Let a new client write the record that marks the end."""
        ours = {
            "acks": "all",
            "allow.auto.create.topics": False,
            "delivery.report.only.error": False,
            "linger.ms": 0,
            "message.timeout.ms": round(seconds * 1_000),
        }
        with closing(Producer(client_config(self._settings, **ours))) as producer:
            writer = _EndWriter(producer)
            try:
                producer.produce(
                    self._partition.topic,
                    self._end_record.value,
                    partition=self._partition.partition,
                    headers=list(self._end_record.headers),
                    on_delivery=writer.report,
                )
                yield writer
            finally:
                producer.purge()  # closing would wait for the record

    def has_half(self, half_id: HalfId) -> bool:
        """Whether the half topic still has a half."""
        queue = TopicPartition(self._halves, half_id.queue)
        low, high = self._bounds(queue, _TIMEOUT_SECONDS)
        return low <= half_id.offset < high

    def _bounds(self, partition: TopicPartition, seconds: float) -> tuple[int, int]:
        """Return a partition's first offset and its end; a leader cut off gives older ones."""
        with closing(self._consumer("read_uncommitted")) as consumer:
            low, high = consumer.get_watermark_offsets(partition, seconds)
            return int(low), int(high)

    def read(self, begin: int, end: int) -> Iterator[StoredRecord]:
        """Return the records between two offsets.

        Raises `KafkaException` if Kafka shows no further record for 30 s. A transaction that a
        former producer left open hides what follows. It is aborted when its transactional id is
        taken over, or after `kafka_transaction_timeout_ms`.
        """
        give_up_at = time.monotonic() + _TIMEOUT_SECONDS
        while begin < end:
            if time.monotonic() >= give_up_at:
                raise _timed_out(
                    f"the end of {self._partition.topic}, {end}, can't be read: {begin} is next"
                )
            for message in self._messages(begin, end, give_up_at):
                begin, give_up_at = _offset_after(message), time.monotonic() + _TIMEOUT_SECONDS
                if message.error() is None and begin <= end:
                    yield _stored(message)

    def _messages(self, begin: int, end: int, give_up_at: float) -> Iterator[Message]:
        """Let a new client read on, unless its leader lacks the end: it was cut off."""
        with closing(self._consumer("read_committed")) as consumer:
            partition = TopicPartition(self._partition.topic, self._partition.partition, begin)
            consumer.assign([partition])
            while begin < end and time.monotonic() < give_up_at:
                message = consumer.poll(_POLL_SECONDS)
                _, high = consumer.get_watermark_offsets(self._partition, cached=True)
                if 0 <= high < end:  # negative before the leader's first answer
                    return
                if message is not None and (after := _offset_after(message)) > begin:
                    begin, give_up_at = after, time.monotonic() + _TIMEOUT_SECONDS
                    yield message

    def _consumer(self, isolation: str) -> Consumer:
        ours = {
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # ms that an answer waits for records: the partition's end comes with the next answer.
            "fetch.wait.max.ms": 10,
            "fetch.message.max.bytes": WHOLE_BYTES,
        }
        return Consumer(reader_config(self._settings, **ours))


class _EndWriter:
    """A client that writes the record which marks the end, and what became of the record."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.offset: int | None = None
        self.error: KafkaError | None = None

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Note Kafka's answer."""
        self.error = error
        self.offset = message.offset() if error is None else None


def _timed_out(reason: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))


def _offset_after(message: Message) -> int:
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
