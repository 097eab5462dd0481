"""Spark's settings for the native queries that the resolver's is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from resolver.bench.stage import Stage
from resolver.processor import tasks

#: What serves such a query best: code made for its stages, and for a join one state store instead
#: of four. Our session has neither by itself: code for a small batch costs more than it saves.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.streaming.join.stateFormatVersion": "3",
}
_TASKS = "spark.sql.shuffle.partitions"


@contextmanager
def native_settings(stage: Stage) -> Iterator[None]:
    """Let queries that are started inside run with them, on as many tasks as the resolver's."""
    count = str(tasks(stage.spark, stage.settings.queues))
    conf, chosen = stage.spark.conf, {**_SETTINGS, _TASKS: count}
    ours = {name: str(conf.get(name)) for name in chosen}
    for name, value in chosen.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, value in ours.items():
            conf.set(name, value)
