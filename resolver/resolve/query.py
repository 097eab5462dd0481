"""The query `resolve`: it gives each queue's range row to a worker, which decides.

Each queue has a grouping key, its slot, so that Spark spreads the queues evenly over its tasks.
Next station: `processor.py` gets each queue's row. The decisions go on to `hand_over.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.group import GroupedData
from pyspark.sql.streaming.query import StreamingQuery

from ..settings import Settings
from ..spark.session import sql_options
from .checkpoint import Checkpoint
from .planned_settings import PlannedSettings
from .processor import DECISIONS, QueueProcessor
from .source import ranges
from .spread import slots, tasks

#: Most offsets whose outcomes one row may hold.
_OUTCOMES_AT_ONCE = 100_000
#: Let Spark interpret expressions. Otherwise it compiles them in each batch, for a row or two: the
#: batch's time is a literal in the plan.
_INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}

#: Function for `foreachBatch`: takes the rows of a batch (`DECISIONS`), and its number.
BatchHandler = Callable[[DataFrame, int], None]


def start_query(
    spark: SparkSession,
    settings: Settings,
    checkpoint: Checkpoint,
    planned: PlannedSettings,
    fence_secret: str,
    hand_over: BatchHandler,
    outcomes: DataFrame | None = None,
) -> StreamingQuery:
    """Start the query `resolve`: its batches go on from the checkpoint, to `hand_over`.

    `planned` says how each batch decides. Fences of the half topic are made with `fence_secret`. A
    rebuild takes `outcomes` (`resolver.resolve.rebuild.OUTCOMES`) as settled. Raises Spark's and
    py4j's errors, as of damaged checkpoint files.
    """
    keys = slots(spark, settings.queues)
    processor = QueueProcessor(settings, planned, keys, fence_secret, outcomes is not None)
    writer = (
        _decided(ranges(spark, settings), keys, processor, outcomes)
        .writeStream.queryName("resolve")
        .option("checkpointLocation", checkpoint.spark)
        .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
        .foreachBatch(hand_over)
    )
    count = {"spark.sql.shuffle.partitions": str(tasks(spark, settings.queues))}
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "resolve")
    try:
        with sql_options(spark, {**count, **_INTERPRETED}):
            return writer.start()
    finally:
        context.setLocalProperty("spark.scheduler.pool", cast(str, None))


def _decided(
    new: DataFrame, keys: list[int], processor: QueueProcessor, outcomes: DataFrame | None
) -> DataFrame:
    """Return the decisions (`DECISIONS`) about `new` ranges (`resolver.resolve.source.RANGES`)."""
    return (
        new.select(_slot(keys), "*", _now())
        .groupBy("slot")
        .transformWithState(
            processor,
            outputStructType=DECISIONS,
            outputMode="Append",
            timeMode="None",
            initialState=None if outcomes is None else _initial(outcomes, keys),
        )
    )


def _initial(outcomes: DataFrame, keys: list[int]) -> GroupedData:
    """Return outcomes, many in each row: Spark gives a processor one row after the other."""
    part = (F.col("offset") / _OUTCOMES_AT_ONCE).cast("long").alias("part")
    outcomes_of_part = F.collect_list(F.struct("offset", "outcome", "delivery")).alias("found")
    return (
        outcomes.groupBy(_slot(keys), part)
        .agg(outcomes_of_part)
        .select("slot", "found.offset", "found.outcome", "found.delivery", _now())
        .groupBy("slot")
    )


def _now() -> Column:
    """Return the batch's time in ms: the same in each replay.

    Spark's processing time would be the same too. It is for timers, though: each task would look
    for timers, and there are none here.
    """
    return F.unix_millis(F.current_timestamp()).alias("now_ms")


def _slot(keys: list[int]) -> Column:
    all_keys = F.array(*(F.lit(key) for key in keys))
    return F.element_at(all_keys, F.col("queue") + 1).alias("slot")
