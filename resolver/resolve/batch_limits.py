"""Limits of a batch: the number and the bytes of its records.

Kafka does not report the sizes of records, so some are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import zip_longest

from ..errors import RecordsAway, ResolverError
from ..kafka.partition_offsets import QueueOffsets
from ..protocol import Names
from ..settings import Settings
from .lost_records import Partition
from .read_problems import REBUILD
from .reader import Range, RangeReader

#: If a batch could exceed `max_bytes_per_trigger` with records of `_LARGE_BYTES` each, planning
#: samples its records and estimates their size. It reads `_SAMPLE` records at each end of a
#: partition's range, and at places between in a long range: one more place for each `_APART`
#: offsets, `_MOST_PLACES` places in all at most. The estimate holds for `_SAMPLED_FOR_SECONDS`. A
#: batch of more than `_MANY` records is always sampled.
_LARGE_BYTES, _SAMPLE = 1 << 20, 25
_APART, _MOST_PLACES = 1_000, 10
_SAMPLED_FOR_SECONDS, _MANY = 5.0, 2_000
#: Bytes that Kafka sends of a partition at once; one batch of its records if that is larger.
_SAMPLE_BYTES = 65_536
#: Longest wait in seconds for a partition that answered a moment ago; the other queues wait too.
_SAMPLE_SECONDS = 5.0
#: Seconds to leave out a queue whose records did not come, though it may answer planning; twice as
#: long each time, up to the limit. Otherwise it would hold up every second plan.
_AWAY_SECONDS, _MOST_AWAY_SECONDS = 5.0, 60.0

#: A queue, and the start and end of its halves, then of its ops (`source.RANGES`).
RangeRow = tuple[int, int, int, int, int]


class BatchLimits:
    """Keeps a batch below `max_offsets_per_trigger` and `max_bytes_per_trigger`.

    The bytes follow from an estimate of the records' average size.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._most_offsets = settings.max_offsets_per_trigger
        self._most_bytes = settings.max_bytes_per_trigger
        self._reader: RangeReader | None = None
        self._record_bytes = 1.0
        self._sample_after = 0.0
        # Seconds that each queue was left out, by queue, until its records come.
        self._away_seconds: dict[int, float] = {}

    def end_of_batch(
        self,
        start: QueueOffsets,
        ends: QueueOffsets,
        rows: Callable[[QueueOffsets, QueueOffsets], Iterable[RangeRow]],
    ) -> QueueOffsets:
        """Return how far the batch after `start` reads; `rows` gives the rows between two offsets.

        Raises `RecordsAway` if records of some queues do not come.
        """
        end = _shared(start, ends, self._most_offsets)
        most = self._most_records(list(rows(start, end)))
        return end if most is None else _shared(start, end, most)

    def pause_of(self, queue: int) -> float:
        """Return for how many seconds to leave out a queue whose records did not come."""
        last = self._away_seconds.get(queue, _AWAY_SECONDS / 2)
        seconds = self._away_seconds[queue] = min(_MOST_AWAY_SECONDS, last * 2)
        return seconds

    def _most_records(self, rows: list[RangeRow]) -> int | None:
        """Return how many records a batch may have; None if it may have all of these."""
        count = sum(_count(row) for row in rows)
        if count * _LARGE_BYTES <= self._most_bytes:
            self._are_back(rows)  # the next plan comes after the batch, which reads their records
            return None
        if self._is_to_sample(rows, count):
            self._sample(rows, count)
        most = int(self._most_bytes / self._record_bytes)
        return None if count <= most else most

    def _is_to_sample(self, rows: list[RangeRow], count: int) -> bool:
        # Sample a queue that was away: in a batch, missing records would hold up all queues.
        is_back = any(row[0] in self._away_seconds for row in rows)
        return is_back or count > _MANY or time.monotonic() > self._sample_after

    def _sample(self, rows: list[RangeRow], count: int) -> None:
        """Estimate the average size of a batch's records, in bytes."""
        try:
            self._record_bytes = max(1.0, self._expected_bytes(self._by_partition(rows)) / count)
        except RecordsAway as away:
            self._are_back(row for row in rows if row[0] not in away.queues)
            raise
        self._sample_after = time.monotonic() + _SAMPLED_FOR_SECONDS
        self._are_back(rows)

    def _are_back(self, rows: Iterable[RangeRow]) -> None:
        for queue, *_ in rows:
            self._away_seconds.pop(queue, None)

    def _by_partition(self, rows: list[RangeRow]) -> dict[Partition, Range]:
        ranges: dict[Partition, Range] = {}
        for queue, halves_start, halves_end, ops_start, ops_end in rows:
            ranges[self._names.half, queue] = Range(halves_start, halves_end)
            ranges[self._names.op, queue] = Range(ops_start, ops_end)
        return ranges

    def _expected_bytes(self, ranges: dict[Partition, Range]) -> int:
        """Return the bytes of the ranges' records, if the others are like the sampled ones."""
        self._reader = self._reader or RangeReader(self._settings, _SAMPLE_BYTES, _SAMPLE_SECONDS)
        sizes: dict[Partition, list[int]] = {partition: [] for partition in ranges}
        samples = map(_sample_ranges, ranges.values())
        # All partitions at once: one after another, the answers would take several times as long.
        for at_once in zip_longest(*samples, fillvalue=Range(0, 0)):
            read = self._reader.sizes(dict(zip(ranges, at_once, strict=True)))
            for partition, of_records in read.items():
                sizes[partition] += of_records
        return sum(
            _extrapolated(offsets, sizes[partition]) for partition, offsets in ranges.items()
        )


def _shared(start: QueueOffsets, ends: QueueOffsets, limit: int) -> QueueOffsets:
    """Return how far a batch reads: to the ends, or the same share of each partition.

    An op and its half are about as far behind, so about the same batch reads both.
    """
    new = _new_records(start, ends)
    total = sum(new.values())
    if total <= limit:
        return ends
    end: QueueOffsets = {topic: {} for topic in ends}
    for (topic, queue), count in new.items():
        share = max(1, count * limit // total) if count else 0
        end[topic][queue] = start[topic][queue] + share
    return end


def _new_records(start: QueueOffsets, ends: QueueOffsets) -> dict[tuple[str, str], int]:
    """Return the number of new records, by topic and queue."""
    new = {
        (topic, queue): end - start[topic][queue]
        for topic, of_queues in ends.items()
        for queue, end in of_queues.items()
    }
    for (topic, queue), count in new.items():
        if count < 0:
            raise ResolverError(
                f"partition {queue} of {topic} ends at {ends[topic][queue]}, and was read up to "
                f"{start[topic][queue]}: it was made again or has lost records, so transactions "
                "may be lost",
                remedy=REBUILD,
            )
    return new


def _count(row: RangeRow) -> int:
    _, halves_start, halves_end, ops_start, ops_end = row
    return halves_end - halves_start + ops_end - ops_start


def _sample_ranges(offsets: Range) -> list[Range]:
    """Return small ranges at the beginning, at the end, and evenly between."""
    start, end = offsets
    count = min(_MOST_PLACES, 2 + (end - start) // _APART)
    last = max(start, end - _SAMPLE)
    starts = [start + (last - start) * number // (count - 1) for number in range(count)]
    # A short range gives the same start twice.
    return [Range(first, min(end, first + _SAMPLE)) for first in dict.fromkeys(starts)]


def _extrapolated(offsets: Range, sizes: list[int]) -> int:
    return sum(sizes) * (offsets.end - offsets.start) // max(1, len(sizes))
