"""The query that decides: it groups the range rows by queue, for `processor.py`.

Each queue has a grouping key, so that Spark spreads the queues evenly over its tasks.
"""

from __future__ import annotations

import itertools

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.group import GroupedData

from ..settings import Settings
from .planned_settings import PlannedSettings
from .processor import DECISIONS, QueueProcessor

#: Most offsets whose outcomes one row may hold.
_OUTCOMES_AT_ONCE = 100_000
#: Seed that Spark uses for all its hashes.
_HASH_SEED = 42


def decide(
    ranges: DataFrame,
    settings: Settings,
    planned: PlannedSettings,
    slots: list[int],
    fence_secret: str,
    outcomes: DataFrame | None = None,
) -> DataFrame:
    """Resolve the records of ranges (`resolver.resolve.source.RANGES`); return `DECISIONS`.

    `settings` says where the records are, `planned` how each batch decides. `slots` has each
    queue's grouping key (see `slots`). Fences of the half topic are made with `fence_secret`. A
    rebuild takes `outcomes` (`resolver.resolve.rebuild.OUTCOMES`) as settled.
    """
    initial = None if outcomes is None else _initial(outcomes, slots)
    return (
        ranges.select(_slot(slots), "*", _now())
        .groupBy("slot")
        .transformWithState(
            QueueProcessor(settings, planned, slots, fence_secret, outcomes is not None),
            outputStructType=DECISIONS,
            outputMode="Append",
            timeMode="None",
            initialState=initial,
        )
    )


def _initial(outcomes: DataFrame, slots: list[int]) -> GroupedData:
    """Return outcomes, many in each row: Spark gives a processor one row after the other."""
    many = (F.col("offset") / _OUTCOMES_AT_ONCE).cast("long").alias("part")
    together = F.collect_list(F.struct("offset", "outcome", "delivery")).alias("found")
    return (
        outcomes.groupBy(_slot(slots), many)
        .agg(together)
        .select("slot", "found.offset", "found.outcome", "found.delivery", _now())
        .groupBy("slot")
    )


def tasks(spark: SparkSession, queues: int) -> int:
    """Return how many tasks decide: one per queue, or one per core if cores share them evenly.

    A checkpoint keeps the number that it began with.
    """
    context = spark.sparkContext
    cores = context.defaultParallelism if (context.master or "").startswith("local") else queues
    return cores if queues % cores == 0 else queues


def slots(spark: SparkSession, queues: int) -> list[int]:
    """Return a grouping key for each queue, so that Spark spreads queues evenly over its tasks.

    Spark hashes keys. With the numbers 0 to 3 as keys, one of four tasks would get three queues.
    The keys returned are even for as many tasks as queues, and for each divisor of that number.
    """
    assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
    # Spark's hash partitioning hashes an int so. To ask Spark by a job would delay each start.
    hashing = spark._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32(_HASH_SEED)
    keys: dict[int, int] = {}
    for slot in itertools.count():
        keys.setdefault(hashing.hashInt(slot) % queues, slot)
        if len(keys) == queues:
            break
    return [keys[queue] for queue in range(queues)]


def _now() -> Column:
    """Return the batch's time in ms: the same in each replay.

    Spark's processing time would be the same too. It is for timers, though: each task would look
    for timers, and there are none here.
    """
    return F.unix_millis(F.current_timestamp()).alias("now_ms")


def _slot(slots: list[int]) -> Column:
    keys = F.array(*(F.lit(slot) for slot in slots))
    return F.element_at(keys, F.col("queue") + 1).alias("slot")
