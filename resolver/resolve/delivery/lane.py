"""The lane: messages whose topic takes none now wait in `tx.parked`, and all others go on.

A message enters the lane in the Kafka transaction of its batch. It leaves the lane in one
transaction with its delivery and its outcome: exactly once. While a topic has messages in the lane,
all its later messages go there too: this keeps their order. After any start, `tx.parked` tells
which messages wait. Its records are never deleted here, since no such request can be fenced. The
marker has the offset at which reading begins.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack
from confluent_kafka import KafkaException

from ...errors import ResolverError
from ...protocol import (
    HalfId,
    Headers,
    Names,
    Release,
    Resolution,
    StoredHalf,
    StoredRecord,
    commit_record,
    decode_half,
    decode_parked,
    decode_resolution,
    parked_record,
    release_record,
)
from ...settings import Settings
from .lane_log import LaneLog
from .packed import DecisionRecords, as_output

logger = logging.getLogger(__name__)

#: Most decisions and bytes that are released at a time: meanwhile no batch is delivered.
_CHUNK_DECISIONS = 1_000
_CHUNK_BYTES = 4 * 1024 * 1024
#: Most records that are read for a chunk: most of the lane may be other topics'.
_CHUNK_RECORDS = 20_000
#: Seconds for marking the lane's end: batches wait meanwhile. Without an answer the end that
#: was known before counts, and more is read later.
_END_SECONDS = 1.0
#: Seconds between two looks whether a topic takes records again. If a topic seemed well and stalls
#: again, each look comes later, after the second number at most.
#: The third number is the seconds between two log lines that a topic takes no records.
_LOOK_SECONDS = 1.0
_LOOK_MAX_SECONDS = 60.0
_REMIND_SECONDS = 60.0


@dataclass
class _Waiting:
    """A parked topic: the count of its messages in the lane, none of them before `begin`."""

    begin: int
    count: int = 0
    since: float = field(default_factory=time.monotonic)
    look_at: float = 0.0
    pause: float = _LOOK_SECONDS
    remind_at: float = 0.0


class Chunk(NamedTuple):
    """The next messages of a parked topic, for one transaction with their release up to `upto`."""

    topic: str
    decisions: list[DecisionRecords]
    upto: int


class Lane:
    """The messages that wait for their topics; for use under delivery's lock."""

    def __init__(self, settings: Settings) -> None:
        self._names = Names(settings.topic_prefix)
        self._log = LaneLog(settings)
        self._waiting: dict[str, _Waiting] = {}
        self._end = 0

    @property
    def begin(self) -> int:
        """The lane's offset before which no message waits."""
        return min((waiting.begin for waiting in self._waiting.values()), default=self._end)

    @property
    def topics(self) -> Set[str]:
        """The topics that are parked."""
        return self._waiting.keys()

    def load(self, begin: int | None) -> None:
        """Read the lane from the marker's offset on, or from its beginning if that is not known.

        Topics that were parked a moment ago stay parked.
        """
        low, self._end = self._log.bounds()
        if begin is None:
            begin = low
        elif not low <= begin <= self._end:
            self._lost(f"the marker has offset {begin}, and the topic has {low} to {self._end}")
            begin = low
        offsets_by_topic = self._offsets(begin)
        parked = {topic: old for topic, old in self._waiting.items() if not old.count}
        for topic, offsets in offsets_by_topic.items():
            waiting = self._waiting.get(topic) or _Waiting(0)
            waiting.begin, waiting.count = offsets[0], len(offsets)
            parked[topic] = waiting
        self._waiting = parked
        logger.debug("nothing waits in %s before offset %d", self._names.parked, self.begin)

    def _offsets(self, begin: int) -> dict[str, list[int]]:
        """Return the offsets of the records that wait, by topic."""
        entries: dict[str, list[int]] = {}
        for record in self._log.read(begin, self._end):
            decoded = decode_parked(record)
            if isinstance(decoded, Release):
                _release(entries, decoded)
            else:
                entries.setdefault(decoded[0].topic, []).append(record.offset)
        return {topic: offsets for topic, offsets in entries.items() if offsets}

    def _lost(self, evidence: str) -> None:
        logger.error(
            "%s has lost records, and messages that waited may be among them: %s. Look with "
            "`txresolver audit --topics` which messages have no outcome",
            self._names.parked, evidence,
        )  # fmt: skip

    def dropped(self) -> list[DecisionRecords]:
        """Return the record after which no message waits: a rebuild decides them all again.

        Raises `ResolverError` if a message's half is gone: nothing would decide that message.
        """
        for half_id in self._oldest_halves():
            if not self._log.has_half(half_id):
                raise self._half_gone(half_id)
        release = release_record(Release(None, self._end), self._names)
        return [DecisionRecords(as_output(release))] if self._waiting else []

    def _oldest_halves(self) -> list[HalfId]:
        """Return, for each queue, the first of the halves whose messages wait."""
        oldest: dict[int, int] = {}
        for record in self._log.read(self.begin, self._end):
            decoded = decode_parked(record)
            if isinstance(decoded, Release):
                continue
            resolution, _ = decoded
            waiting = self._waiting.get(resolution.topic)
            if waiting is not None and record.offset >= waiting.begin:
                queue, offset = resolution.queue, resolution.offset
                oldest[queue] = min(offset, oldest.get(queue, offset))
        return [HalfId(*of_queue) for of_queue in sorted(oldest.items())]

    def _half_gone(self, half_id: HalfId) -> ResolverError:
        return ResolverError(
            f"messages wait in {self._names.parked} for {', '.join(sorted(self._waiting))}, and "
            f"the half of one, {half_id}, is no longer in {self._names.half}: a rebuild "
            "would lose the message",
            remedy="go on with the old checkpoint, without --rebuild, until the topic takes "
            "records and none waits. If that checkpoint is lost, copy the messages from offset "
            f"{self.begin} on, deliver them by hand, remove them with kafka-delete-records.sh, "
            "then start with --rebuild",
        )

    def drop(self) -> None:
        """Note that the record of `dropped` is written."""
        self._waiting = {}

    def park(self, topics: Iterable[str], why: str) -> None:
        """Let messages of topics wait from now on."""
        if not self._waiting.keys() >= set(topics):
            self._look_where_it_ends()
        for topic in sorted(topics):
            if topic not in self._waiting:
                self._waiting[topic] = _Waiting(self._end)
                logger.warning("topic %s is parked: %s. Its messages wait, no others", topic, why)
            self._later(self._waiting[topic])

    def _look_where_it_ends(self) -> None:
        """Note the end: a topic's messages are looked for behind it only."""
        try:
            self._end = self._log.end(_END_SECONDS)
        except KafkaException as error:
            logger.info("where %s ends is not known: %s", self._names.parked, error)

    def postpone(self, topic: str) -> None:
        """Look at a topic later each time, since it seemed to take records and took none."""
        waiting = self._waiting[topic]
        waiting.pause = min(2 * waiting.pause, _LOOK_MAX_SECONDS)
        self._later(waiting)

    def pause(self, topic: str) -> float:
        """Return the seconds between two looks at a parked topic."""
        return self._waiting[topic].pause

    def _later(self, waiting: _Waiting) -> None:
        waiting.look_at = time.monotonic() + waiting.pause

    def divert(
        self, decisions: list[DecisionRecords], max_bytes: int | None, released: str | None = None
    ) -> list[DecisionRecords]:
        """Return decisions with the lane's records in place of commits to parked topics.

        The topic `released` is left out. A message that the lane does not take is given up.
        """
        topics = self._waiting.keys() - {released}
        if not topics:
            return decisions
        return [
            self._diverted(decision, max_bytes) if _is_commit_to(topics, decision) else decision
            for decision in decisions
        ]

    def _diverted(self, decision: DecisionRecords, max_bytes: int | None) -> DecisionRecords:
        message, record, half_headers = decision
        if message is None or record is None or half_headers is None:
            raise ValueError("only a commit can be parked")
        headers: Headers = list(msgpack.unpackb(half_headers, use_list=False))
        resolution = decode_resolution(record.value)
        parked = as_output(
            parked_record(resolution, message.key, message.value, headers, self._names)
        )
        if max_bytes is not None and parked.batch_bytes > max_bytes:
            limit = f"topic {message.topic} takes no records now, and {self._names.parked}"
            return decision.undeliverable(
                f"{limit} none of more than max.message.bytes={max_bytes}", self._names
            )
        return DecisionRecords(parked)

    def wrote(self, decisions: list[DecisionRecords]) -> None:
        """Count the messages that were written to the lane."""
        if not self._waiting:
            return
        counts = Counter(
            decode_resolution(decision.message.headers[-1][1]).topic
            for decision in decisions
            if decision.message is not None
            and decision.message.topic == self._names.parked
            and len(decision.message.headers) > 1
        )
        for topic, count in counts.items():
            self._waiting[topic].count += count

    def due(self) -> list[str]:
        """Return the parked topics to be looked at now."""
        now = time.monotonic()
        due = [topic for topic, waiting in self._waiting.items() if waiting.look_at <= now]
        for topic in due:
            waiting = self._waiting[topic]
            self._later(waiting)
            if waiting.remind_at == 0.0:
                waiting.remind_at = now + _REMIND_SECONDS
            elif waiting.remind_at <= now:
                waiting.remind_at = now + _REMIND_SECONDS
                seconds = now - waiting.since
                logger.warning(
                    "topic %s takes no records for %d s: %d messages wait in %s",
                    topic, seconds, waiting.count, self._names.parked,
                )  # fmt: skip
        return due

    def chunk(self, topic: str, seconds: float) -> Chunk:
        """Return the messages of a parked topic to be written next; perhaps none are found yet.

        Raises `KafkaException` if Kafka takes more than `seconds` to tell the lane's bounds.
        """
        waiting = self._waiting[topic]
        low, self._end = self._log.bounds(seconds)
        if not low <= waiting.begin <= self._end:
            self._lost(f"{topic} waits from {waiting.begin} on, and there is {low} to {self._end}")
            waiting.begin = low
        decisions: list[DecisionRecords] = []
        size, upto = 0, self._end
        for read, record in enumerate(self._log.read(waiting.begin, self._end), 1):
            decoded = decode_parked(record)
            if not isinstance(decoded, Release) and decoded[0].topic == topic:
                decisions.append(self._decision(record, *decoded))
                size += len(record.value or b"") + len(record.key or b"")
            is_full = len(decisions) >= _CHUNK_DECISIONS or size >= _CHUNK_BYTES
            if is_full or read >= _CHUNK_RECORDS:
                upto = record.offset + 1
                break
        return Chunk(topic, decisions, upto)

    def release(self, chunk: Chunk) -> DecisionRecords:
        """Return the record that states that a chunk waits no longer."""
        return DecisionRecords(
            as_output(release_record(Release(chunk.topic, chunk.upto), self._names))
        )

    def released(self, chunk: Chunk) -> None:
        """Note that a chunk was written, unless the last read of the lane has shown it."""
        waiting = self._waiting.get(chunk.topic)
        if waiting is None:
            return
        if waiting.begin < chunk.upto:
            waiting.begin = chunk.upto
            waiting.count -= len(chunk.decisions)
            waiting.pause = _LOOK_SECONDS if chunk.decisions else waiting.pause
        if chunk.upto == self._end:
            self._unpark(chunk.topic)

    def _unpark(self, topic: str) -> None:
        waiting = self._waiting.pop(topic)
        if waiting.count > 0:
            self._lost(f"{waiting.count} messages to {topic} were parked, and are not found")
        seconds = time.monotonic() - waiting.since
        logger.warning("topic %s takes records again, after %d s: none waits", topic, seconds)

    def _decision(
        self, record: StoredRecord, resolution: Resolution, headers: Headers
    ) -> DecisionRecords:
        """Return the decision as it was before it was parked."""
        half = decode_half(record.key, record.value, headers, self._names.prefix)
        stored_half = StoredHalf(
            resolution.queue, resolution.offset, resolution.stored_at, half, headers
        )
        return DecisionRecords(
            as_output(commit_record(stored_half)),
            as_output(resolution.to_record(self._names.resolution)),
            msgpack.packb(headers),
        )


def _is_commit_to(topics: Set[str], decision: DecisionRecords) -> bool:
    message, resolution, half_headers = decision
    if message is None or resolution is None or half_headers is None:
        return False
    return message.topic in topics


def _release(entries: dict[str, list[int]], release: Release) -> None:
    topics = list(entries) if release.topic is None else [release.topic]
    for topic in topics:
        kept = entries.get(topic, [])
        entries[topic] = [offset for offset in kept if offset >= release.upto]
