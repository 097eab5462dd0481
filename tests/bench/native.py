"""Spark's settings for the native queries that the resolver's is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from resolver.resolve.spread import tasks
from resolver.spark.session import sql_options

from .stage import Stage

#: Spark's defaults, which our session changes: code that is made for a stage serves such a query,
#: and a batch without data lets go of what is behind the watermark.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}


@contextmanager
def native_settings(stage: Stage) -> Iterator[int]:
    """Let queries that are started inside run with them, on as many tasks as the resolver's."""
    count = tasks(stage.spark, stage.settings.queues)
    with sql_options(stage.spark, {**_SETTINGS, "spark.sql.shuffle.partitions": str(count)}):
        yield count
