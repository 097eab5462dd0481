"""Spark's settings for the native queries that the resolver's is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from resolver.resolve.spread import tasks
from resolver.spark.session import sql_options

from .setup import Setup

#: Spark's defaults, which our session changes. Code that is generated for a whole stage makes such
#: a query faster. A batch without data drops the rows behind the watermark.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}


@contextmanager
def native_settings(setup: Setup) -> Iterator[int]:
    """Let queries that are started inside run with them, on as many tasks as the resolver's."""
    count = tasks(setup.spark, setup.settings.queues)
    with sql_options(setup.spark, {**_SETTINGS, "spark.sql.shuffle.partitions": str(count)}):
        yield count
