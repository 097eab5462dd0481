"""Reads a queue's halves and ops, in the worker that decides the queue.

`processor.py` calls it, and passes the records to the next station, `step/step.py`. Planning
uses it too, to sample a large batch (`batch_limits.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ..errors import ResolverError
from ..kafka.clients import LEADER_OPTIONS, reader_config
from ..protocol import Names, StoredRecord, record_bytes
from ..protocol.headers import headers_of
from ..settings import Settings
from .lost_records import Partition, Seen, ask_first_offset, bring_up_to_date
from .read_problems import (
    SEE_BROKER,
    SEE_LOSS,
    Problem,
    Silence,
    out_of_range,
    problem_of,
    records_away,
)

logger = logging.getLogger(__name__)

_AT_ONCE = 1_000
_POLL_SECONDS = 0.5
#: Longest wait for a record in seconds, such as during a broker's restart; then the batch fails.
_PATIENCE_SECONDS = 120.0


T = TypeVar("T")


class Range(NamedTuple):
    """Offsets from `start` up to before `end`."""

    start: int
    end: int


@dataclass
class _Reading(Generic[T]):
    """One read: the ranges that were not read yet, and by partition the next offset to read.

    `keep` gets each message and its offset; `kept` has its return values. `last` has the last
    message, `problems` the last problem, under None for a problem that concerns no partition.
    """

    keep: Callable[[Any, int], T]
    unread: dict[Partition, Range]
    next: dict[Partition, int]
    kept: dict[Partition, list[T]]
    last: dict[Partition, Any] = field(default_factory=dict)
    problems: dict[Partition | None, Problem] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: dict[Partition, Range], keep: Callable[[Any, int], T]) -> _Reading[T]:
        unread = {
            partition: offsets
            for partition, offsets in ranges.items()
            if offsets.start < offsets.end
        }
        starts = {partition: offsets.start for partition, offsets in unread.items()}
        return cls(keep, unread, starts, {partition: [] for partition in ranges})

    def note(self, problem: Problem, message: Any) -> None:
        """Note the problem of which a message tells: one of no partition concerns them all."""
        topic = message.topic()
        if topic is None:
            self.problems = {None: problem}
        else:
            self.problems[topic, message.partition()] = problem

    def problem(self) -> Problem:
        """Return the last problem of the first partition that was not read yet."""
        general = self.problems.get(None, Problem("", SEE_BROKER))
        return self.problems.get(next(iter(self.unread)), general)


class RangeReader:
    """Reads ranges of offsets, many times: making a reader costs more than reading a batch.

    Kafka sends `fetch_bytes` of a partition at once. After `patience_seconds` without a record,
    reading fails.
    """

    def __init__(
        self,
        settings: Settings,
        fetch_bytes: int = 1_048_576,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._patience_seconds = patience_seconds
        self._names = Names(settings.topic_prefix)
        ours: dict[str, Any] = {
            **LEADER_OPTIONS,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            # 10 ms for more records; otherwise a topic without new ones would hold up the other.
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
            "fetch.message.max.bytes": fetch_bytes,
            # 8 MiB ahead at most: records fetched beyond a range are fetched again later.
            "queued.max.messages.kbytes": 8_192,
        }
        self._config = reader_config(settings, **ours)
        self._consumer = Consumer(self._config)

    def is_for(self, settings: Settings) -> bool:
        """Whether this reader reads with these settings."""
        return self._settings == settings

    def read(
        self, queue: int, halves: Range, ops: Range, seen: dict[str, Seen] | None = None
    ) -> tuple[list[StoredRecord], list[StoredRecord]]:
        """Return a queue's halves and ops in these ranges, in offset order.

        Records of aborted transactions are skipped. `seen` has the last record of former reads, by
        topic, and is brought up to date. Raises `ResolverError`, also if that record is gone: other
        records may have its offset.
        """
        ranges = {(self._names.half, queue): halves, (self._names.op, queue): ops}
        reading = self._read(ranges, _stored)
        if seen is not None:
            bring_up_to_date(seen, reading.last, self._first_offset, self._message_at)
        half_records, op_records = reading.kept.values()
        return half_records, op_records

    def sizes(self, ranges: dict[Partition, Range]) -> dict[Partition, list[int]]:
        """Return the sizes of the ranges' records in bytes, by partition and in offset order.

        The records themselves are not kept: there may be many, of 1 MiB each. Records of aborted
        transactions are skipped. Raises `RecordsAway` if records of some queues do not come.
        """
        return self._read(ranges, _size).kept

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _first_offset(self, partition: Partition) -> int:
        # Not bound once: `_message_at` may have put another client in this one's place.
        return ask_first_offset(self._consumer, partition, self._patience_seconds)

    def _message_at(self, partition: Partition, offset: int) -> Any:
        """Return a partition's message at an offset; None if there is none to read."""
        return self._read({partition: Range(offset, offset + 1)}, _stored).last.get(partition)

    def _read(self, ranges: dict[Partition, Range], keep: Callable[[Any, int], T]) -> _Reading[T]:
        reading = _Reading.of(ranges, keep)
        self._assign(reading)
        try:
            self._take_all(reading)
        finally:
            self._consumer.incremental_unassign(
                [TopicPartition(*partition) for partition in reading.unread]
            )
        return reading

    def _assign(self, reading: _Reading[Any]) -> None:
        """Begin to fetch the rest of each range, after the records read so far."""
        self._consumer.incremental_assign(
            [TopicPartition(*partition, reading.next[partition]) for partition in reading.unread]
        )

    def _take_all(self, reading: _Reading[Any]) -> None:
        silence = Silence()
        while reading.unread:
            # `consume` waits for the full number: wait for one record, then take those fetched.
            messages = self._consumer.consume(1, _POLL_SECONDS)
            messages += self._consumer.consume(_AT_ONCE, 0)
            problems = [self._take(message, reading) for message in messages]
            if None in problems:  # something came without a problem
                silence = Silence()
            for message, problem in zip(messages, problems, strict=True):
                if problem is not None:
                    reading.note(problem, message)
            if reading.unread and silence.seconds() > self._patience_seconds:
                raise records_away(reading.unread, self._patience_seconds, reading.problem())
            if reading.unread and silence.is_time_for_another_client():
                self._ask_by_new_client(reading, silence.seconds())

    def _ask_by_new_client(self, reading: _Reading[Any], seconds: float) -> None:
        """Go on with a new client, after `seconds` without a record."""
        cause = reading.problem().cause or "no error was said"
        logger.warning("no records for %.0f s (%s): asking by a new client", seconds, cause)
        self._consumer.close()
        self._consumer = Consumer(self._config)
        self._assign(reading)

    def _take(self, message: Any, reading: _Reading[Any]) -> Problem | None:
        """Take a record or a partition's end; return a problem for an error or an early end."""
        error = message.error()
        partition = (message.topic(), message.partition())
        code = None if error is None else error.code()
        if code not in (None, KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
            return problem_of(message)
        offsets, offset = reading.unread.get(partition), message.offset()
        if offsets is None:
            return None  # the range was read already
        if code == KafkaError._AUTO_OFFSET_RESET:
            return out_of_range(self._consumer, message, reading.next[partition])
        if error is None and offset < offsets.end:
            if offset < reading.next[partition]:
                raise ResolverError(
                    f"{partition} gave offset {offset} out of order", remedy="start again"
                )
            reading.kept[partition].append(reading.keep(message, offset))
            reading.last[partition] = message
            offset += 1
            reading.next[partition] = offset
            if reading.problems:
                reading.problems.pop(partition, None)
        if offset >= offsets.end:
            self._finish(partition, reading)
        elif error is not None:
            return Problem(f"It ends at {offset}", SEE_LOSS)
        return None

    def _finish(self, partition: Partition, reading: _Reading[Any]) -> None:
        self._consumer.incremental_unassign([TopicPartition(*partition)])
        del reading.unread[partition]


def _stored(message: Any, offset: int) -> StoredRecord:
    stored_at_ms = message.timestamp()[1]
    return StoredRecord(offset, stored_at_ms, message.key(), message.value(), headers_of(message))


def _size(message: Any, _: int) -> int:
    return record_bytes(message.key(), message.value(), headers_of(message) or [])
