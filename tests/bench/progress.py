"""What a streaming query says of itself: what it has read, how long its batches take, its state."""

from __future__ import annotations

import json
import statistics
import time

from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from resolver.errors import ResolverError
from resolver.kafka.partition_offsets import QueueOffsets, all_offsets
from resolver.resolve.job import Resolve

from .results import Figures
from .setup import Topics

_LOOK_SECONDS = 0.1  # to ask costs the driver some milliseconds
_MEGABYTE = 1 << 20
#: What a batch's time goes to, as Spark says; `addBatch` is reading, deciding and delivering.
_PARTS = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets")


def ends_of(topics: Topics) -> QueueOffsets:
    """Return the end offsets of the half and the op topic, as a query's progress has them."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return all_offsets(topics.settings, latest)


def has_read(query: StreamingQuery, ends: QueueOffsets) -> bool:
    """Whether a committed batch has read up to these ends."""
    progress = query.lastProgress
    read: QueueOffsets = {}
    for source in progress.sources if progress else []:
        read |= json.loads(source.endOffset)
    return all(
        read.get(topic, {}).get(queue, 0) >= end
        for topic, queues in ends.items()
        for queue, end in queues.items()
    )


def await_read(job: Resolve, ends: QueueOffsets) -> None:
    """Wait until the job has read up to these ends; raises what ended it before."""
    while not has_read(job.query, ends):
        if job.wait(_LOOK_SECONDS):
            job.raise_failure()
            raise ResolverError("the job ended before it had read all")


def await_joined(query: StreamingQuery, ends: QueueOffsets) -> None:
    """Wait until a query has read up to these ends; `ResolverError` if it ends before."""
    while not has_read(query, ends):
        if not query.isActive:
            raise ResolverError(f"a query ended before it had read all: {query.exception()}")
        time.sleep(_LOOK_SECONDS)


def last_batch(query: StreamingQuery) -> int:
    """Return the number of the last committed batch, -1 before the first."""
    progress = query.lastProgress
    return progress.batchId if progress else -1


def batch_figures(query: StreamingQuery, after: int) -> Figures:
    """Return how long batches with records took, of those after batch `after`."""
    batches = [
        batch for batch in query.recentProgress if batch.batchId > after and batch.numInputRows
    ]
    taken = sorted(batch.durationMs["triggerExecution"] for batch in batches)
    if not taken:
        return {}
    return {
        "batches": len(taken),
        "batch_p50_ms": statistics.median(taken),
        "batch_max_ms": taken[-1],
        "batch_records": statistics.median(_records(batch) for batch in batches),
        # A batch that was planned before a restart has not all parts.
        "batch_parts_ms": {
            part: statistics.median(batch.durationMs.get(part, 0) for batch in batches)
            for part in _PARTS
        },
    }


def _records(batch: StreamingQueryProgress) -> int:
    """Return how many offsets a batch moved on: resolve's rows are ranges of records."""
    return sum(_sum(source.endOffset) - _sum(source.startOffset) for source in batch.sources)


def _sum(offsets: str | None) -> int:
    """Return the sum of a source's offsets, which before the first batch are none, or `null`."""
    read: QueueOffsets = json.loads(offsets or "null") or {}
    return sum(offset for queues in read.values() for offset in queues.values())


def state_memory(query: StreamingQuery) -> dict[str, float]:
    """Return what the query says that its state takes in memory (RocksDB's, or the heap's)."""
    progress = query.lastProgress
    used = sum(operator.memoryUsedBytes for operator in progress.stateOperators) if progress else 0
    return {"state_memory_mb": used / _MEGABYTE}
