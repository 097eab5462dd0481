"""Where the land query begins when it has no checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pyspark.sql import SparkSession

from resolver.kafka import admin_client
from resolver.protocol import Names
from resolver.settings import Settings
from resolver.tables import topics_pattern
from resolver.tables.delta import Landed, landed_offsets

_EARLIEST = -2  # Spark's word for it in JSON
_ADMIN_TIMEOUT_SECONDS = 30


def starting_offsets(
    spark: SparkSession, settings: Settings, tables: Path | str, checkpoint: Path | str
) -> str:
    """Return `startingOffsets`: behind what the tables hold, which is nothing at the first start.

    A topic's partition lands in one table, and a batch's part of it in one commit. So behind the
    greatest landed offset begins exactly what is missing, wherever an earlier run was killed,
    between two tables of a batch too: nothing lands twice, nothing is left out. A query that has
    its checkpoint goes on from there, whatever is said here.
    """
    if _knows_where_it_began(spark, checkpoint):
        return "earliest"
    landed = landed_offsets(spark, tables)
    return json.dumps(_behind(landed, _partitions(settings))) if landed else "earliest"


def _knows_where_it_began(spark: SparkSession, checkpoint: Path | str) -> bool:
    # Spark writes its source's first offsets here before it plans the first batch. By Hadoop's
    # file system, since a checkpoint may be on any.
    assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/sources/0/0")
    return bool(path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path))


def _partitions(settings: Settings) -> dict[str, int]:
    """Return the partitions of every topic that the query reads: Spark wants them all named."""
    pattern = re.compile(topics_pattern(Names(settings.topic_prefix)))
    known = admin_client(settings).list_topics(timeout=_ADMIN_TIMEOUT_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in known.items() if pattern.fullmatch(name)}


def _behind(landed: Landed, partitions: dict[str, int]) -> dict[str, dict[str, int]]:
    def offset(topic: str, partition: int) -> int:
        greatest = landed.get(topic, {}).get(partition)
        return _EARLIEST if greatest is None else greatest + 1

    return {
        topic: {str(partition): offset(topic, partition) for partition in range(count)}
        for topic, count in partitions.items()
    }
