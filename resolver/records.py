"""Records of the half and op topics, read by the worker that decides their queue."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .errors import ResolverError
from .headers import headers_of
from .kafka import client_config
from .protocol import Names, StoredRecord
from .settings import Settings

logger = logging.getLogger(__name__)

_AT_ONCE = 1_000
_POLL_SECONDS = 1.0
#: For how long no record may come, as when a broker restarts.
_PATIENCE_SECONDS = 120.0
#: After so long, then after twice as long and so on, a new client asks. One whose broker has just
#: started may forget it for good (librdkafka's issue 5301).
_ANEW_SECONDS = 5.0
_REFUSALS = {
    KafkaError._AUTO_OFFSET_RESET: "Kafka deleted records before they were read, so transactions "
    "may be lost. Start with --rebuild, on a new checkpoint, to go on with what is left",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "docs/protocol.md, section 9, has the rights that this "
    "needs",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic is gone",
    KafkaError._UNKNOWN_PARTITION: "the partition is gone",
    **dict.fromkeys(
        (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG),
        "what is stored there is damaged: let a replica that is whole lead the partition",
    ),
}

_Place = tuple[str, int]


class Range(NamedTuple):
    """Offsets from `start` up to before `end`."""

    start: int
    end: int


class Seen(NamedTuple):
    """A record that was read, and the epoch of the leader that stored it."""

    offset: int
    epoch: int


@dataclass
class _Reading:
    """What is left of ranges, what was found of them, and of each partition the last message."""

    left: dict[_Place, Range]
    found: dict[_Place, list[StoredRecord]]
    last: dict[_Place, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, asked: dict[_Place, Range]) -> _Reading:
        left = {place: offsets for place, offsets in asked.items() if offsets.start < offsets.end}
        return cls(left, {place: [] for place in asked})


class Records:
    """A reader of one queue after another; to make one costs more than to read a batch.

    `fetch_bytes` is what Kafka sends of a partition at once.
    """

    def __init__(self, settings: Settings, fetch_bytes: int = 1_048_576) -> None:
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        ours: dict[str, Any] = {
            "group.id": self._names.reader,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            # One topic is not to wait for the other's next records, which may never come.
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
            "fetch.message.max.bytes": fetch_bytes,
            # What is fetched beyond a range is fetched again.
            "queued.max.messages.kbytes": 8_192,
        }
        self._config = client_config(settings, **ours)
        self._consumer = Consumer(self._config)

    def is_for(self, settings: Settings) -> bool:
        """Whether it reads with these settings."""
        return self._settings == settings

    def read(
        self, queue: int, halves: Range, ops: Range, seen: dict[str, Seen] | None = None
    ) -> tuple[list[StoredRecord], list[StoredRecord]]:
        """Return a queue's halves and ops in these ranges, in offset order.

        Records of aborted transactions are passed over. `seen` has by topic what was read last
        before, and is brought up to date. Raises `ResolverError`, also where that is gone: a
        partition that has lost its last records may have others in their place by now.
        """
        asked = {(self._names.half, queue): halves, (self._names.op, queue): ops}
        reading = self._all_of(asked)
        if seen is not None:
            self._bring_up_to_date(seen, reading.last)
        halves_found, ops_found = reading.found.values()
        return halves_found, ops_found

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _bring_up_to_date(self, seen: dict[str, Seen], last: dict[_Place, Any]) -> None:
        for place, message in last.items():
            epoch, before = message.leader_epoch(), seen.get(place[0])
            if epoch is None:
                continue  # a broker without them
            if before is not None and epoch != before.epoch:
                self._see_still_there(place, before)
            seen[place[0]] = Seen(message.offset(), epoch)

    def _see_still_there(self, place: _Place, before: Seen) -> None:
        """Read again what was read last, now that there is another leader's record behind it."""
        try:
            partition = TopicPartition(*place)
            first, _ = self._consumer.get_watermark_offsets(partition, _PATIENCE_SECONDS)
        except KafkaException as error:
            raise ResolverError(f"where {place} begins is not known: {error}") from error
        if before.offset < first:
            return  # deleted since, as it was old enough
        message = self._all_of({place: Range(before.offset, before.offset + 1)}).last.get(place)
        if message is None or message.leader_epoch() != before.epoch:
            raise ResolverError(
                f"partition {place[1]} of {place[0]} has lost records up to {before.offset}, which "
                "were read, and has others in their place, so transactions may be lost. Start with "
                "--rebuild, on a new checkpoint, to go on with what is left"
            )

    def _all_of(self, asked: dict[_Place, Range]) -> _Reading:
        reading = _Reading.of(asked)
        self._assign(reading)
        try:
            self._read(reading)
        finally:
            self._consumer.incremental_unassign([TopicPartition(*at) for at in reading.left])
        return reading

    def _assign(self, reading: _Reading) -> None:
        """Begin to fetch what is left of ranges, behind what was found of them."""
        left, found = reading.left, reading.found
        self._consumer.incremental_assign(
            [TopicPartition(*at, _next(offsets, found[at])) for at, offsets in left.items()]
        )

    def _read(self, reading: _Reading) -> None:
        left = reading.left
        heard_at, anew_after, error = time.monotonic(), _ANEW_SECONDS, ""
        while left:
            # It waits for as many as it is asked for: wait for one, then take what is there.
            messages = self._consumer.consume(1, _POLL_SECONDS)
            messages += self._consumer.consume(_AT_ONCE, 0)
            heard = [self._take(message, reading) for message in messages]
            if None in heard:
                heard_at, anew_after = time.monotonic(), _ANEW_SECONDS
            error = next(filter(None, reversed(heard)), error)
            silent = time.monotonic() - heard_at
            if left and silent > _PATIENCE_SECONDS:
                (topic, queue), offsets = next(iter(left.items()))
                raise ResolverError(
                    f"no records from partition {queue} of {topic} within {_PATIENCE_SECONDS:.0f} "
                    f"s, which has them from {offsets.start} to {offsets.end}: is its broker up? "
                    f"{error}".rstrip()
                )
            if left and silent > anew_after:
                anew_after *= 2
                why = error or "no error was said"
                logger.warning("no records for %.0f s (%s): asking by a new client", silent, why)
                self._consumer.close()
                self._consumer = Consumer(self._config)
                self._assign(reading)

    def _take(self, message: Any, reading: _Reading) -> str | None:
        """Take a record or a range's end; return what is wrong where it is neither."""
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return self._refuse(message)
        place = (message.topic(), message.partition())
        offsets, offset = reading.left.get(place), message.offset()
        if offsets is None:
            return None  # read already
        if error is None and offset < offsets.end:
            found = reading.found[place]
            if offset < _next(offsets, found):
                raise ResolverError(f"{place} gave offset {offset} out of order; start again")
            found.append(_stored(message, offset))
            reading.last[place] = message
            offset += 1
        if offset >= offsets.end:
            self._finish(place, reading.left)
        elif error is not None:
            return (
                f"It ends at {offset}: if it has lost its last records, transactions may be lost; "
                "start with --rebuild, on a new checkpoint, to go on with what is left"
            )
        return None

    def _finish(self, place: _Place, left: dict[_Place, Range]) -> None:
        self._consumer.incremental_unassign([TopicPartition(*place)])
        del left[place]

    def _refuse(self, message: Any) -> str:
        """Raise what another attempt does not heal; return what was said."""
        error = message.error()
        remedy = _REFUSALS.get(error.code())
        if remedy is not None or error.fatal():
            raise ResolverError(
                f"partition {message.partition()} of {message.topic()} can't be read: "
                f"{error.str()}: {remedy}"
            )
        return str(error.str())


def _next(offsets: Range, found: list[StoredRecord]) -> int:
    return found[-1].offset + 1 if found else offsets.start


def _stored(message: Any, offset: int) -> StoredRecord:
    stored_at_ms = message.timestamp()[1]
    return StoredRecord(offset, stored_at_ms, message.key(), message.value(), headers_of(message))
