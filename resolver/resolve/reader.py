"""Reads a queue's halves and ops, in the worker that decides the queue.

`processor.py` calls it, and passes the records to the next station, `step/step.py`. Planning
uses it too, to sample a large batch (`batch_limits.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ..errors import ResolverError
from ..kafka.clients import LEADER_OPTIONS, reader_config
from ..protocol import Names, StoredRecord
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


class Range(NamedTuple):
    """Offsets from `start` up to before `end`."""

    start: int
    end: int


@dataclass
class _Reading:
    """One read: the ranges that were not read yet, the records and the last message.

    Each is by partition.
    """

    unread: dict[Partition, Range]
    records: dict[Partition, list[StoredRecord]]
    last: dict[Partition, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: dict[Partition, Range]) -> _Reading:
        unread = {
            partition: offsets
            for partition, offsets in ranges.items()
            if offsets.start < offsets.end
        }
        return cls(unread, {partition: [] for partition in ranges})


class RangeReader:
    """A reader of one range after another; making a reader costs more than reading a batch.

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
        reading = self._all_of({(self._names.half, queue): halves, (self._names.op, queue): ops})
        if seen is not None:
            bring_up_to_date(seen, reading.last, self._first_offset, self._message_at)
        half_records, op_records = reading.records.values()
        return half_records, op_records

    def read_partitions(
        self, ranges: dict[Partition, Range]
    ) -> dict[Partition, list[StoredRecord]]:
        """Return the records of these ranges, by partition and in offset order, as `read` does."""
        return self._all_of(ranges).records

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _first_offset(self, partition: Partition) -> int:
        # Not bound once: `_message_at` may have put another client in this one's place.
        return ask_first_offset(self._consumer, partition, self._patience_seconds)

    def _message_at(self, partition: Partition, offset: int) -> Any:
        """Return a partition's message at an offset; None if there is none to read."""
        return self._all_of({partition: Range(offset, offset + 1)}).last.get(partition)

    def _all_of(self, ranges: dict[Partition, Range]) -> _Reading:
        reading = _Reading.of(ranges)
        self._assign(reading)
        try:
            self._read(reading)
        finally:
            self._consumer.incremental_unassign(
                [TopicPartition(*partition) for partition in reading.unread]
            )
        return reading

    def _assign(self, reading: _Reading) -> None:
        """Begin to fetch the rest of each range, after the records read so far."""
        self._consumer.incremental_assign(
            [
                TopicPartition(*partition, _next(offsets, reading.records[partition]))
                for partition, offsets in reading.unread.items()
            ]
        )

    def _read(self, reading: _Reading) -> None:
        silence, last_problem = Silence(), Problem("", SEE_BROKER)
        while reading.unread:
            # `consume` waits for the full number: wait for one record, then take those fetched.
            messages = self._consumer.consume(1, _POLL_SECONDS)
            messages += self._consumer.consume(_AT_ONCE, 0)
            problems = [self._take(message, reading) for message in messages]
            if None in problems:  # something came without a problem
                silence = Silence()
            last_problem = next(filter(None, reversed(problems)), last_problem)
            if reading.unread and silence.seconds() > self._patience_seconds:
                partition, offsets = next(iter(reading.unread.items()))
                raise records_away(partition, offsets, self._patience_seconds, last_problem)
            if reading.unread and silence.is_time_for_another_client():
                self._ask_by_new_client(reading, silence.seconds(), last_problem)

    def _ask_by_new_client(self, reading: _Reading, seconds: float, problem: Problem) -> None:
        """Go on with a new client, after `seconds` without a record."""
        cause = problem.cause or "no error was said"
        logger.warning("no records for %.0f s (%s): asking by a new client", seconds, cause)
        self._consumer.close()
        self._consumer = Consumer(self._config)
        self._assign(reading)

    def _take(self, message: Any, reading: _Reading) -> Problem | None:
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
            return out_of_range(self._consumer, message, _next(offsets, reading.records[partition]))
        if error is None and offset < offsets.end:
            records = reading.records[partition]
            if offset < _next(offsets, records):
                raise ResolverError(
                    f"{partition} gave offset {offset} out of order", remedy="start again"
                )
            records.append(_stored(message, offset))
            reading.last[partition] = message
            offset += 1
        if offset >= offsets.end:
            self._finish(partition, reading)
        elif error is not None:
            return Problem(f"It ends at {offset}", SEE_LOSS)
        return None

    def _finish(self, partition: Partition, reading: _Reading) -> None:
        self._consumer.incremental_unassign([TopicPartition(*partition)])
        del reading.unread[partition]


def _next(offsets: Range, records: list[StoredRecord]) -> int:
    return records[-1].offset + 1 if records else offsets.start


def _stored(message: Any, offset: int) -> StoredRecord:
    stored_at_ms = message.timestamp()[1]
    return StoredRecord(offset, stored_at_ms, message.key(), message.value(), headers_of(message))
