"""Figures of running queries: from the step's last figures, Spark's progress and Kafka's ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import datetime
from typing import Any, cast

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from ..kafka.clients import admin_client
from ..kafka.offset_answers import LATEST, ask_offsets
from ..protocol import Names
from ..resolve.job import Resolve
from ..settings import Settings
from .metrics import Buckets, Value

#: Offset up to which a query has read, by topic and partition.
Positions = dict[tuple[str, int], int]
#: Part of a batch that an idle trigger lacks, and how many of the last reports are searched for it.
_WRITING, _REPORTS = "addBatch", 5
#: Spark's figure of RocksDB's files.
_FILES = "rocksdbSstFileSize"
#: Time in seconds for Kafka to say where partitions end.
_ANSWER_SECONDS = 5.0


class LastBatch:
    """The progress of a query's last batch; Spark reports idle triggers too."""

    def __init__(self, query: Callable[[], StreamingQuery]) -> None:
        self._query = query
        self._last: StreamingQueryProgress | None = None

    def progress(self) -> StreamingQueryProgress | None:
        """Return the last batch's progress; None until a batch has ended since the start."""
        # Take the newest reports only: to read all hundred takes a call to the JVM for each.
        reports = cast(Any, self._query())._jsq.recentProgress()
        for index in range(len(reports) - 1, max(-1, len(reports) - 1 - _REPORTS), -1):
            progress = StreamingQueryProgress.fromJson(json.loads(reports[index].json()))
            if _WRITING in progress.durationMs:
                self._last = progress
                break
        return self._last


def resolve_values(job: Resolve, last: LastBatch, settings: Settings) -> Iterator[Value]:
    """Yield what resolve knows after its last batch."""
    for figures in job.figures():
        queue = (str(figures.queue),)
        yield Value("txresolver_half_messages", queue, figures.pending)
        yield Value("txresolver_batch_repeated_ends", queue, figures.duplicates)
        if figures.watermark_ms is not None:
            watermark = figures.watermark_ms / 1_000
            yield Value("txresolver_watermark_timestamp_seconds", queue, watermark)
        if figures.due_ms is not None:
            due = max(figures.due_ms, 0 if figures.due_ms else figures.now_ms) / 1_000
            yield Value("txresolver_next_due_timestamp_seconds", queue, due)
    yield from _read("resolve", resolve_positions(job, settings))
    marked = job.marked()
    yield Value("txresolver_marker_timestamp_seconds", (), marked.written_at)
    yield Value("txresolver_marker_batch", (), marked.batch)
    revoked = job.revoked()
    times = Buckets(revoked.at_most, revoked.total, revoked.seconds)
    yield Value("txresolver_revocation_seconds", (), times)
    yield Value("txresolver_revocations_waiting", (), revoked.waiting)
    yield Value("txresolver_revocations_forbidden", (), revoked.forbidden)
    progress = last.progress()
    if progress is not None:
        yield from _batch("resolve", progress)
        yield from _state(progress)


def land_values(last: LastBatch) -> Iterator[Value]:
    """Yield what land knows after its last batch."""
    progress = last.progress()
    if progress is not None:
        yield from _read("land", _positions(progress))
        yield from _batch("land", progress)


def resolve_positions(job: Resolve, settings: Settings) -> Positions:
    """Return how far resolve has read: ops that it left for a later batch are not read yet."""
    names = Names(settings.topic_prefix)
    figures = job.figures()
    halves = {(names.half, of_queue.queue): of_queue.half_offset for of_queue in figures}
    return halves | {(names.op, of_queue.queue): of_queue.op_offset for of_queue in figures}


def land_positions(last: LastBatch) -> Positions:
    """Return how far land has read; empty before its first batch."""
    progress = last.progress()
    return {} if progress is None else _positions(progress)


class Lag:
    """Asks Kafka where partitions end, and compares with how far queries have read."""

    def __init__(
        self, settings: Settings, positions: Mapping[str, Callable[[], Positions]]
    ) -> None:
        self._settings = settings
        self._positions = positions
        self._admin: AdminClient | None = None

    def values(self) -> Iterator[Value]:
        """Yield the lag of each query in each partition."""
        read = {query: positions() for query, positions in dict(self._positions).items()}
        ends = self._ends({partition for positions in read.values() for partition in positions})
        for query, positions in read.items():
            for (topic, partition), offset in positions.items():
                if (topic, partition) in ends:
                    lag = max(0, ends[topic, partition] - offset)
                    yield Value("txresolver_lag_records", (query, topic, str(partition)), lag)

    def _ends(self, partitions: set[tuple[str, int]]) -> Positions:
        if not partitions:
            return {}
        if self._admin is None:  # an idle client is falsy
            self._admin = admin_client(self._settings)
        try:
            return _told_ends(self._admin, partitions)
        except (KafkaException, FutureTimeout):
            self._admin = None  # it may have asked a silent broker
            raise


def _told_ends(admin: AdminClient, partitions: set[tuple[str, int]]) -> Positions:
    """Return the ends of committed records: a batch that is being written is not behind yet."""
    specs = {TopicPartition(*each): LATEST for each in partitions}
    answers = ask_offsets(admin, specs, _ANSWER_SECONDS, IsolationLevel.READ_COMMITTED)
    ends: Positions = {}
    for partition, answer in answers.items():
        # A partition whose leader is away hides no other's lag. Its offset may be negative.
        if answer.exception(2 * _ANSWER_SECONDS) is None and answer.result().offset >= 0:
            ends[partition.topic, partition.partition] = answer.result().offset
    return ends


def _read(query: str, positions: Positions) -> Iterator[Value]:
    for (topic, partition), offset in positions.items():
        yield Value("txresolver_records_read_total", (query, topic, str(partition)), offset)


def _positions(progress: StreamingQueryProgress) -> Positions:
    ends: dict[str, dict[str, int]] = json.loads(progress.sources[0].endOffset)
    return {
        (topic, int(partition)): offset
        for topic, partitions in ends.items()
        for partition, offset in partitions.items()
    }


def _batch(query: str, progress: StreamingQueryProgress) -> Iterator[Value]:
    began = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00"))
    yield Value("txresolver_batch_timestamp_seconds", (query,), began.timestamp())
    yield Value("txresolver_batches_total", (query,), progress.batchId + 1)
    for part, milliseconds in progress.durationMs.items():
        yield Value("txresolver_batch_seconds", (query, part), milliseconds / 1_000)


def _state(progress: StreamingQueryProgress) -> Iterator[Value]:
    operators: list[Any] = progress.stateOperators
    memory = sum(operator.memoryUsedBytes for operator in operators)
    files = sum(operator.customMetrics.get(_FILES, 0) for operator in operators)
    yield Value("txresolver_state_bytes", ("memory",), memory)
    yield Value("txresolver_state_bytes", ("files",), files)
