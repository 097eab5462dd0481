"""The source of the resolve query: which records a batch reads, as offset ranges of its queues.

Spark logs the ranges with each batch, so that a replay reads the same. The records themselves pass
by Spark: the worker that decides a queue reads them from Kafka (`resolver.records`), since to take
each through the JVM as a row costs more than all else that is done with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import zip_longest

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from .errors import ResolverError
from .kafka import admin_client
from .protocol import Names, StoredRecord, record_bytes
from .records import Range, Records
from .settings import Settings

logger = logging.getLogger(__name__)

#: A row for each queue with new records: from where on its halves are read, and a `step.Plan`.
RANGES = (
    "queue int, halves_start long, halves_end long, halves_known long, ops_start long, ops_end long"
)

_TIMEOUT_SECONDS = 10.0
#: Unless they fit were they all so large, a batch's records are looked into, so many at each end of
#: each partition, and of a long one at places between. What that says of their size holds for so
#: long, but for batches of more.
_LARGE_BYTES, _SAMPLE = 1 << 20, 25
_APART, _MOST_PLACES = 1_000, 10
_SAMPLED_FOR_SECONDS, _MANY = 5.0, 2_000
#: What Kafka sends of a partition at once, or one batch of its records if that is larger.
_SAMPLE_BYTES = 65_536
#: A broker that is away comes back: there is nothing new until then.
_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._NOENT,  # "No leaders found"
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)

#: As Spark's Kafka source writes them: for each topic, its partitions' offsets.
Offsets = dict[str, dict[str, int]]
#: Beside the topics, as no topic may be called: where the halves ended, to be read or not.
KNOWN = "known halves"
_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_Row = tuple[int, int, int, int, int, int]


def ranges(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the stream of `RANGES`, in batches within the settings' `max_…_per_trigger`."""
    source = _source(settings)
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


def _source(settings: Settings) -> type[DataSource]:
    """Return the source's class; it carries the settings, as options would be shown in plans."""

    class Queues(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"queues of {settings.topic_prefix}"

        def schema(self) -> str:
            return RANGES

        def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
            return Ranges(settings)

    return Queues


class Ranges(SimpleDataSourceStreamReader):
    """Plans batches: asks Kafka where the topics end, and shares the limits among what is new."""

    def __init__(self, settings: Settings) -> None:
        names = Names(settings.topic_prefix)
        self._half, self._op = names.half, names.op
        self._queues = [str(queue) for queue in range(settings.queues)]
        self._limit = settings.max_offsets_per_trigger
        self._settings = settings
        self._admin: AdminClient | None = None
        self._records: Records | None = None
        self._record_bytes = 1.0
        self._sample_after = 0.0

    def __reduce__(self) -> tuple[type[Ranges], tuple[Settings]]:
        """Pickle without the connection: Spark sends this to tasks too."""
        return Ranges, (self._settings,)

    def initialOffset(self) -> Offsets:
        """Return where the topics begin."""
        begin = ask_offsets(self._client(), self._settings, [self._half, self._op], _EARLIEST)
        return {**begin, KNOWN: begin[self._half]}

    def read(self, start: Offsets) -> tuple[Iterator[_Row], Offsets]:
        """Return what is new since `start` within the limits, and where that ends."""
        try:
            ends = self._ends(start)
        except (KafkaException, FutureTimeout) as error:
            if isinstance(error, KafkaException) and error.args[0].code() not in _AWAY:
                raise ResolverError(f"the ends of {self._half} and {self._op}: {error}") from error
            logger.warning("Kafka does not say where %s ends: %r", self._half, error)
            # A client that knew other leaders, or that forgot all brokers, may not recover.
            self._admin = None
            return iter(()), start
        end = self._within_limits(start, ends)
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Offsets, end: Offsets) -> Iterator[_Row]:
        """Return the ranges between two offsets, the same each time."""
        rows: list[_Row] = []
        for queue in self._queues:
            halves = (start[self._half][queue], end[self._half][queue])
            ops = (start[self._op][queue], end[self._op][queue])
            if halves[0] < halves[1] or ops[0] < ops[1]:
                rows.append((int(queue), *halves, end[KNOWN][queue], *ops))
        return iter(rows)

    def _ends(self, start: Offsets) -> Offsets:
        """Return where the topics end: first the ops, so that their halves are there by then."""
        ends = ask_offsets(self._client(), self._settings, [self._op], _LATEST)
        ends |= ask_offsets(self._client(), self._settings, [self._half], _LATEST)
        if ends[self._op] == start[self._op]:
            return {**ends, KNOWN: start[KNOWN]}
        # Those in open transactions too, whose ops may have come already.
        isolation = IsolationLevel.READ_UNCOMMITTED
        known = ask_offsets(self._client(), self._settings, [self._half], _LATEST, isolation)
        return {**ends, KNOWN: known[self._half]}

    def _within_limits(self, start: Offsets, ends: Offsets) -> Offsets:
        end = _shared(start, ends, self._limit)
        rows = list(self.readBetweenOffsets(start, end))
        count = sum(_count(row) for row in rows)
        limit = self._settings.max_bytes_per_trigger
        if count * _LARGE_BYTES <= limit:
            return end
        if count > _MANY or time.monotonic() > self._sample_after:
            self._record_bytes = max(1.0, sum(map(self._expected_bytes, rows)) / count)
            self._sample_after = time.monotonic() + _SAMPLED_FOR_SECONDS
        most = int(limit / self._record_bytes)
        return end if count <= most else _shared(start, end, most)

    def _expected_bytes(self, row: _Row) -> int:
        """Return what the records of a row take, if those sampled are like the others."""
        queue, *halves, _, ops_start, ops_end = row
        both = (Range(*halves), Range(ops_start, ops_end))
        self._records = self._records or Records(self._settings, _SAMPLE_BYTES)
        sampled: tuple[list[StoredRecord], list[StoredRecord]] = ([], [])
        for halves_at, ops_at in zip_longest(*map(_samples, both), fillvalue=Range(0, 0)):
            found = self._records.read(queue, halves_at, ops_at)
            for known, read in zip(sampled, found, strict=True):
                known += read
        return sum(map(_extrapolated, both, sampled))

    def _client(self) -> AdminClient:
        if self._admin is None:  # one without anything under way is falsy
            self._admin = admin_client(self._settings)
        return self._admin


def ask_offsets(
    admin: AdminClient,
    settings: Settings,
    topics: Sequence[str],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Offsets:
    """Return offsets of all queues; a committed end is one below which no transaction is open.

    Raises `KafkaException` or `FutureTimeout`.
    """
    places = {
        TopicPartition(topic, queue): spec for topic in topics for queue in range(settings.queues)
    }
    asked = admin.list_offsets(places, isolation_level=isolation, request_timeout=_TIMEOUT_SECONDS)
    offsets: Offsets = {}
    for place, answer in asked.items():
        # After a restart of the broker it may never be answered, whatever the time-out given.
        offset = answer.result(_TIMEOUT_SECONDS + 1).offset
        if offset < 0:  # of a broker that did not answer librdkafka says only this
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        offsets.setdefault(place.topic, {})[str(place.partition)] = offset
    return offsets


def _count(row: _Row) -> int:
    _, halves_start, halves_end, _, ops_start, ops_end = row
    return halves_end - halves_start + ops_end - ops_start


def _samples(offsets: Range) -> list[Range]:
    """Return some offsets at the beginning, at the end, and evenly between."""
    start, end = offsets
    count = min(_MOST_PLACES, 2 + (end - start) // _APART)
    last = max(start, end - _SAMPLE)
    places = [start + (last - start) * place // (count - 1) for place in range(count)]
    return [Range(place, min(end, place + _SAMPLE)) for place in places]


def _extrapolated(offsets: Range, sampled: list[StoredRecord]) -> int:
    taken = sum(record_bytes(one.key, one.value, one.headers or []) for one in sampled)
    return taken * (offsets.end - offsets.start) // max(1, len(sampled))


def _shared(start: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Return how far a batch reads: all of it, or of each partition the same share.

    So an op and its half, which are about as far behind, are read in about the same batch.
    """
    new = {
        (topic, queue): end - start[topic][queue]
        for topic, of_queues in ends.items()
        for queue, end in of_queues.items()
        if topic != KNOWN
    }
    for (topic, queue), count in new.items():
        if count < 0:
            raise ResolverError(
                f"partition {queue} of {topic} ends at {ends[topic][queue]}, and was read up to "
                f"{start[topic][queue]}: it was made anew or has lost records, so transactions "
                "may be lost. Start with --rebuild, on a new checkpoint, to go on with what is left"
            )
    total = sum(new.values())
    if total <= limit:
        return ends
    end: Offsets = {topic: {} for topic in ends} | {KNOWN: ends[KNOWN]}
    for (topic, queue), count in new.items():
        share = max(1, count * limit // total) if count else 0
        end[topic][queue] = start[topic][queue] + share
    return end
