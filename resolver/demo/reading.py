"""The topics: read from their beginnings as any consumer reads them, and counted."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from ..kafka.clients import client_config
from ..protocol import Headers, Names, Outcome, Resolution, Source, decode_resolution, is_half_fence
from ..protocol.headers import headers_of
from ..protocol.names import HALF_OFFSET, SOURCE, UNIQ_KEY
from ..settings import Settings
from .shop import TOPIC

#: Offsets by topic and partition.
PartitionOffsets = dict[tuple[str, int], int]
_Value = TypeVar("_Value")
_Other = TypeVar("_Other")

_log = logging.getLogger(__name__)
_BATCH = 1_000
_ANSWER_SECONDS = 10.0
#: Deliveries whose latencies are kept.
_RECENT = 5_000


@dataclass(frozen=True, slots=True)
class Read:
    """A record as it was read, and the time of reading in ms."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    received_ms: int

    def header(self, name: str) -> str | None:
        """Return a header as text, the last where it is repeated; None without it."""
        values = [value for known, value in self.headers if known == name]
        return values[-1].decode("utf-8", "replace") if values and values[-1] else None


class Reader:
    """Reads all partitions of topics, `read_committed`, and joins no consumer group.

    It begins at their beginnings, or at the offsets of another reader of them.
    """

    def __init__(
        self, settings: Settings, topics: Iterable[str], since: PartitionOffsets | None = None
    ) -> None:
        ours = {
            "group.id": f"demo-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "logger": _log,
        }
        self._consumer = Consumer(client_config(settings, **ours))
        known = self._consumer.list_topics(timeout=_ANSWER_SECONDS).topics
        #: The offset behind the last record that was read, by topic and partition.
        self.offsets = {
            (topic, number): 0 for topic in topics for number in known[topic].partitions
        }
        self.offsets |= since or {}
        self._unfinished = set(self.offsets)
        self._consumer.assign(
            [
                TopicPartition(*partition, offset or OFFSET_BEGINNING)
                for partition, offset in self.offsets.items()
            ]
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    @property
    def reached_end(self) -> bool:
        """Whether each partition was read to its end, as the end was at some moment."""
        return not self._unfinished

    def read(self, seconds: float) -> list[Read]:
        """Return the records that come within `seconds`."""
        read: list[Read] = []
        messages = self._consumer.consume(_BATCH, seconds)
        received_ms = time.time_ns() // 1_000_000
        for message in messages:
            error = message.error()
            partition = (str(message.topic()), int(message.partition() or 0))
            if error is None:
                offset = int(message.offset() or 0)
                headers = headers_of(message) or []
                self.offsets[partition] = offset + 1
                read.append(
                    Read(*partition, offset, message.key(), message.value(), headers, received_ms)
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.discard(partition)
            else:
                _log.warning("reading %s: %s", partition, error.str())
        return read

    def has_all_of(self, topic: str) -> bool:
        """Whether all records stored now were read; for a topic that no transactions write to."""
        return all(
            offset >= self._end_offset(name, number)
            for (name, number), offset in self.offsets.items()
            if name == topic
        )

    def _end_offset(self, topic: str, number: int) -> int:
        partition = TopicPartition(topic, number)
        return int(self._consumer.get_watermark_offsets(partition, _ANSWER_SECONDS)[1])


class Counts(NamedTuple):
    """The numbers of records that were read, by kind."""

    begun: int = 0
    committed: int = 0
    committed_by_check: int = 0
    rolled_back: int = 0
    rolled_back_by_check: int = 0
    discarded: int = 0
    undeliverable: int = 0
    checks: int = 0
    quarantined: int = 0
    delivered: int = 0


class Latency(NamedTuple):
    """Seconds from storing the op, and the half, until a `read_committed` consumer has it."""

    op_to_visible: float
    half_to_visible: float


class Tally:
    """Counts records: topics in any order, each topic's records in Kafka's order."""

    def __init__(self, names: Names, check_topic: str) -> None:
        self._names = names
        self._check_topic = check_topic
        self._counted: Counter[str] = Counter()
        # A half and its outcome are in different topics, and so are the outcome of a commit and
        # its message: whichever is read first waits for the other.
        self._begun: dict[str, bool] = {}
        self._ended: dict[str, bool] = {}
        self._commits: dict[str, Resolution] = {}
        self._arrivals: dict[str, int] = {}
        self.discarded_ids: set[str] = set()
        self.latencies: deque[Latency] = deque(maxlen=_RECENT)

    @property
    def counts(self) -> Counts:
        return Counts(**{name: self._counted[name] for name in Counts._fields})

    @property
    def pending(self) -> int:
        """The number of halves without an outcome."""
        return len(self._begun)

    def count_from_here(self) -> None:
        """Forget the counts and latencies up to now, and no half that is pending."""
        self._counted.clear()
        self.latencies.clear()

    def take(self, read: Read) -> None:
        """Take one record."""
        topic, names = read.topic, self._names
        if topic == names.half and not is_half_fence(read.headers):
            self._counted["begun"] += 1
            _match(f"{read.partition}:{read.offset}", True, self._begun, self._ended)
        elif topic == names.resolution:
            self._resolve(decode_resolution(read.value))
        elif topic == names.discarded:
            self._counted["discarded"] += read.header("REASON") == "CHECK_MAX"
        elif topic == names.quarantine:
            self._quarantine(read)
        elif topic == self._check_topic:
            self._counted["checks"] += 1
        elif topic == TOPIC:
            self._deliver(read)

    def _resolve(self, resolution: Resolution) -> None:
        _match(f"{resolution.queue}:{resolution.offset}", True, self._ended, self._begun)
        by_check = resolution.source is Source.CHECK
        if resolution.outcome is Outcome.COMMIT:
            self._counted["committed"] += 1
            self._counted["committed_by_check"] += by_check
            id_ = resolution.transaction_id
            received_ms = _match(id_, resolution, self._commits, self._arrivals)
            self._measure(resolution, received_ms)
        elif resolution.outcome is Outcome.ROLLBACK:
            self._counted["rolled_back"] += 1
            self._counted["rolled_back_by_check"] += by_check
        elif resolution.outcome is Outcome.UNDELIVERABLE:
            self._counted["undeliverable"] += 1
        else:
            self.discarded_ids.add(resolution.transaction_id)

    def _quarantine(self, read: Read) -> None:
        self._counted["quarantined"] += 1
        topic, _, half_id = (read.header(SOURCE) or "").partition(":")
        if topic == self._names.half:
            _match(half_id, True, self._ended, self._begun)

    def _deliver(self, read: Read) -> None:
        self._counted["delivered"] += 1
        transaction_id = read.header(UNIQ_KEY)
        if transaction_id is not None and read.header(HALF_OFFSET) is not None:
            resolution = _match(transaction_id, read.received_ms, self._arrivals, self._commits)
            self._measure(resolution, read.received_ms)

    def _measure(self, resolution: Resolution | None, received_ms: int | None) -> None:
        if resolution and received_ms and resolution.ended_at is not None:
            since_op = (received_ms - resolution.ended_at) / 1000
            self.latencies.append(Latency(since_op, (received_ms - resolution.stored_at) / 1000))


def _match(
    key: str, value: _Value, own: dict[str, _Value], others: dict[str, _Other]
) -> _Other | None:
    """Take what waits for this key on the other side; without it, let the value wait."""
    partner = others.pop(key, None)
    if partner is None:
        own[key] = value
    return partner


def landed_offsets(checkpoint: Path) -> PartitionOffsets:
    """Return the offset behind the content of the tables, by topic and partition.

    Spark writes a batch's end offsets, as the last line of `offsets/N`, before the batch, and
    `commits/N` after it.
    """
    batches = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not batches:
        return {}
    planned = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    return {
        (topic, int(partition)): offset
        for topic, partitions in orjson.loads(planned[-1]).items()
        for partition, offset in partitions.items()
    }


def has_landed(checkpoint: Path, wanted: PartitionOffsets) -> bool:
    """Whether the tables hold all records before the wanted offsets."""
    landed = landed_offsets(checkpoint)
    return all(landed.get(partition, 0) >= offset for partition, offset in wanted.items())
