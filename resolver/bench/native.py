"""Spark's settings for the native queries that the resolver's is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from resolver.bench.stage import Stage
from resolver.processor import tasks

#: Spark's defaults, which our session changes: code that is made for a stage serves such a query,
#: and a batch without data lets go of what is behind the watermark.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
_TASKS = "spark.sql.shuffle.partitions"


@contextmanager
def native_settings(stage: Stage) -> Iterator[int]:
    """Let queries that are started inside run with them, on as many tasks as the resolver's."""
    count = tasks(stage.spark, stage.settings.queues)
    conf, chosen = stage.spark.conf, {**_SETTINGS, _TASKS: str(count)}
    ours = {name: str(conf.get(name)) for name in chosen}
    for name, value in chosen.items():
        conf.set(name, value)
    try:
        yield count
    finally:
        for name, value in ours.items():
            conf.set(name, value)
