"""Reads a queue's halves and ops, in the worker that decides the queue.

`processor.py` calls it, and passes the records to the next station, `step/step.py`. Planning
reads a sample of a large batch by it too (`batch_limits.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ..errors import ResolverError
from ..kafka.clients import client_config
from ..protocol import Names, StoredRecord
from ..protocol.headers import headers_of
from ..settings import Settings
from .lost_records import Place, Seen, ask_first_offset, bring_up_to_date
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
    """One read: the ranges left, the records found and the last message, by partition."""

    left: dict[Place, Range]
    found: dict[Place, list[StoredRecord]]
    last: dict[Place, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, asked: dict[Place, Range]) -> _Reading:
        left = {place: offsets for place, offsets in asked.items() if offsets.start < offsets.end}
        return cls(left, {place: [] for place in asked})


class RangeReader:
    """A reader of one queue after another; making a reader costs more than reading a batch.

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
            "group.id": self._names.reader,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            # 10 ms for more records; otherwise a topic without new ones would hold up the other.
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
            "fetch.message.max.bytes": fetch_bytes,
            # 8 MiB ahead at most: records fetched beyond a range are fetched again later.
            "queued.max.messages.kbytes": 8_192,
        }
        self._config = client_config(settings, **ours)
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
        asked = {(self._names.half, queue): halves, (self._names.op, queue): ops}
        reading = self._all_of(asked)
        if seen is not None:
            bring_up_to_date(seen, reading.last, self._first_offset, self._message_at)
        halves_found, ops_found = reading.found.values()
        return halves_found, ops_found

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _first_offset(self, place: Place) -> int:
        # Not bound once: `_message_at` may have put another client in this one's place.
        return ask_first_offset(self._consumer, place, self._patience_seconds)

    def _message_at(self, place: Place, offset: int) -> Any:
        """Return a partition's message at an offset; None if there is none to read."""
        return self._all_of({place: Range(offset, offset + 1)}).last.get(place)

    def _all_of(self, asked: dict[Place, Range]) -> _Reading:
        reading = _Reading.of(asked)
        self._assign(reading)
        try:
            self._read(reading)
        finally:
            self._consumer.incremental_unassign([TopicPartition(*at) for at in reading.left])
        return reading

    def _assign(self, reading: _Reading) -> None:
        """Begin to fetch the rest of each range, after the records found so far."""
        left, found = reading.left, reading.found
        self._consumer.incremental_assign(
            [TopicPartition(*at, _next(offsets, found[at])) for at, offsets in left.items()]
        )

    def _read(self, reading: _Reading) -> None:
        silence, error = Silence(), Problem("", SEE_BROKER)
        while reading.left:
            # `consume` waits for the full number: wait for one record, then take those fetched.
            messages = self._consumer.consume(1, _POLL_SECONDS)
            messages += self._consumer.consume(_AT_ONCE, 0)
            heard = [self._take(message, reading) for message in messages]
            if None in heard:  # something came without a problem
                silence = Silence()
            error = next(filter(None, reversed(heard)), error)
            if reading.left and silence.seconds() > self._patience_seconds:
                place, offsets = next(iter(reading.left.items()))
                raise records_away(place, offsets, self._patience_seconds, error)
            if reading.left and silence.is_time_for_another_client():
                self._ask_anew(reading, silence.seconds(), error)

    def _ask_anew(self, reading: _Reading, silent: float, error: Problem) -> None:
        """Go on with a new client."""
        why = error.cause or "no error was said"
        logger.warning("no records for %.0f s (%s): asking by a new client", silent, why)
        self._consumer.close()
        self._consumer = Consumer(self._config)
        self._assign(reading)

    def _take(self, message: Any, reading: _Reading) -> Problem | None:
        """Take a record or a partition's end; return a problem for an error or an early end."""
        error = message.error()
        place = (message.topic(), message.partition())
        code = None if error is None else error.code()
        if code not in (None, KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
            return problem_of(message)
        offsets, offset = reading.left.get(place), message.offset()
        if offsets is None:
            return None  # the range was read already
        if code == KafkaError._AUTO_OFFSET_RESET:
            return out_of_range(self._consumer, message, _next(offsets, reading.found[place]))
        if error is None and offset < offsets.end:
            found = reading.found[place]
            if offset < _next(offsets, found):
                raise ResolverError(
                    f"{place} gave offset {offset} out of order", remedy="start again"
                )
            found.append(_stored(message, offset))
            reading.last[place] = message
            offset += 1
        if offset >= offsets.end:
            self._finish(place, reading.left)
        elif error is not None:
            return Problem(f"It ends at {offset}", SEE_LOSS)
        return None

    def _finish(self, place: Place, left: dict[Place, Range]) -> None:
        self._consumer.incremental_unassign([TopicPartition(*place)])
        del left[place]


def _next(offsets: Range, found: list[StoredRecord]) -> int:
    return found[-1].offset + 1 if found else offsets.start


def _stored(message: Any, offset: int) -> StoredRecord:
    stored_at_ms = message.timestamp()[1]
    return StoredRecord(offset, stored_at_ms, message.key(), message.value(), headers_of(message))
