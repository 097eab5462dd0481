"""The source of the resolve query: which records a batch reads, as offset ranges of its queues.

Spark logs the ranges with each batch, so that a replay reads the same records. The records do not
pass through Spark: the worker that decides a queue reads them from Kafka
(`resolver.resolve.reader`). A record's way through the JVM as a row costs more than all other work
on the record.

Next station: `processor.py`. Spark brings it each queue's range row: `query.py` starts that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from ..errors import RecordsAway
from ..kafka.end_offsets import EndOffsets
from ..kafka.partition_offsets import QueueOffsets, all_offsets
from ..protocol import Names
from ..settings import Settings
from ..spark.failure import sent_whole
from .batch_limits import BatchLimits, RangeRow

logger = logging.getLogger(__name__)

#: A row for each queue with new records: start and end offsets of its halves, then of its ops.
#: `processor.py` makes a `step.Plan` of the last three offsets. It reads the planned ops. If an
#: earlier batch has left ops, it begins with those.
RANGES = "queue int, halves_start long, halves_end long, ops_start long, ops_end long"

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]


def ranges(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the stream of `RANGES`, in batches within the settings' `max_…_per_trigger`."""
    source = _source(settings)
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


def _source(settings: Settings) -> type[DataSource]:
    """Return the source's class.

    The class carries the settings, because Spark would show options in its plans.
    """

    class Queues(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"queues of {settings.topic_prefix}"

        def schema(self) -> str:
            return RANGES

        def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
            return _RangesForSpark(settings)

    return Queues


class Ranges(SimpleDataSourceStreamReader):
    """Plans batches.

    It asks Kafka where the topics end, and divides a batch's limit among the partitions.
    """

    def __init__(self, settings: Settings) -> None:
        names = Names(settings.topic_prefix)
        self._half, self._op = names.half, names.op
        self._queues = [str(queue) for queue in range(settings.queues)]
        self._settings = settings
        self._end_offsets = EndOffsets(settings)
        self._limits = BatchLimits(settings)

    def __reduce__(self) -> tuple[type[Ranges], tuple[Settings]]:
        """Pickle without the connection: Spark sends this object to tasks too."""
        return Ranges, (self._settings,)

    def initialOffset(self) -> QueueOffsets:
        """Return the first offsets of the topics."""
        return all_offsets(self._settings, _EARLIEST)

    def read(self, start: QueueOffsets) -> tuple[Iterator[RangeRow], QueueOffsets]:
        """Return the ranges of new records since `start`, within the limits, and their end."""
        end = self._within_limits(start, self._end_offsets.after(start))
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: QueueOffsets, end: QueueOffsets) -> Iterator[RangeRow]:
        """Return the ranges between two offsets; the same in each call."""
        rows: list[RangeRow] = []
        for queue in self._queues:
            halves = (start[self._half][queue], end[self._half][queue])
            ops = (start[self._op][queue], end[self._op][queue])
            if halves[0] < halves[1] or ops[0] < ops[1]:
                rows.append((int(queue), *halves, *ops))
        return iter(rows)

    def _within_limits(self, start: QueueOffsets, end_offsets: QueueOffsets) -> QueueOffsets:
        """Return where the batch ends: at `start`, if records of some queues do not come."""
        try:
            return self._limits.end_of_batch(start, end_offsets, self.readBetweenOffsets)
        except RecordsAway as away:
            pauses = {str(queue): self._limits.pause_of(queue) for queue in away.queues}
            named = ", ".join(f"{queue} for {seconds:.0f} s" for queue, seconds in pauses.items())
            logger.warning("planned without queue %s: %s", named, away)
            for queue, seconds in pauses.items():
                self._end_offsets.leave_out([queue], seconds)
            return start


class _RangesForSpark(Ranges):
    """`Ranges` as Spark calls it: errors keep their remedy on the way to the driver."""

    @sent_whole()
    def initialOffset(self) -> QueueOffsets:
        return super().initialOffset()

    @sent_whole()
    def read(self, start: QueueOffsets) -> tuple[Iterator[RangeRow], QueueOffsets]:
        return super().read(start)
