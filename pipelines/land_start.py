"""Where the land query begins, and the refusal to go on from an older copy of its checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.land_checkpoint import Offsets, Planned, landed_batches, planned
from resolver.checkpoint_files import CheckpointFiles
from resolver.errors import ResolverError
from resolver.kafka import admin_client
from resolver.oldest import Oldest, oldest_records
from resolver.protocol import Names
from resolver.settings import Settings
from resolver.tables import TABLES, Table, topics_pattern
from resolver.tables.delta import Landed, landed_offsets, table_path, writers
from resolver.topic_admin import identify_topics, matching_topics

_EARLIEST = -2  # Spark's word for it in JSON
#: What Spark says where it finds other partitions than `startingOffsets` names.
_OTHERS = "you must specify all TopicPartitions"
_BEGIN_SECONDS = 30.0
_LOOK_SECONDS = 0.1
#: The folder of a checkpoint with the ids of topics: the last file has them all.
_TOPICS = "topics"


def starting_offsets(
    spark: SparkSession,
    settings: Settings,
    folder: Path | str,
    checkpoint: Path | str,
    missing: Sequence[Table],
) -> str:
    """Return `startingOffsets`: behind what the tables hold, which is nothing at the first start.

    A topic's partition lands in one table, and a batch's part of it in one commit. So behind the
    greatest landed offset begins exactly what is missing, wherever an earlier run was killed,
    between two tables of a batch too: nothing lands twice, nothing is left out. A query that has
    its checkpoint goes on from there, whatever is said here.

    Raises `ResolverError` where the tables are ahead of the checkpoint, behind it, or gone:
    `missing`; and where a topic was made anew.
    """
    there = [table for table in TABLES if table not in missing]
    known = planned(spark, checkpoint)
    if known is not None:
        _refuse_lost(folder, checkpoint, known, missing)
        _refuse_behind(spark, folder, checkpoint, known, there)
        _refuse_older(spark, settings, folder, checkpoint, known, there)
    _keep_topics(spark, settings, checkpoint)
    if known is not None or not there:
        return "earliest"
    oldest = _oldest(settings)
    landed = landed_offsets(spark, folder, there, oldest)
    return json.dumps(_behind(landed, oldest)) if landed else "earliest"


def met_others(spark: SparkSession, query: StreamingQuery, checkpoint: Path | str) -> bool:
    """Whether a query ended where it should begin, as a topic was made while it started.

    Waits until it has kept where it begins; that may not come while Kafka does not answer.
    """
    until = time.monotonic() + _BEGIN_SECONDS
    while query.isActive and planned(spark, checkpoint) is None and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    return _OTHERS in str(query.exception())


def _refuse_lost(
    folder: Path | str, checkpoint: Path | str, known: Planned, missing: Sequence[Table]
) -> None:
    """Refuse to go on where tables are gone: they are made before the first batch is planned."""
    if missing and known.batch_id >= 0:
        names = ", ".join(table.name for table in missing)
        raise ResolverError(
            f"{names}: no such table in {folder}, and land's checkpoint {checkpoint} has batches "
            "that landed there. Give the right folders or put the tables back; if they are lost, "
            f"remove the folder {checkpoint} and start again: what Kafka still has lands again"
        )


def _refuse_behind(
    spark: SparkSession,
    folder: Path | str,
    checkpoint: Path | str,
    known: Planned,
    tables: Sequence[Table],
) -> None:
    """Refuse tables that have not what landed there: going on would leave a gap for good."""
    landed = landed_batches(spark, checkpoint)
    for table in tables:
        has, _ = writers(spark, table_path(folder, table)).get(_app_id(known, table), (-1, -1))
        if has < landed.get(table.name, -1):
            raise ResolverError(
                f"{table.name} in {folder} is older than land's checkpoint {checkpoint}, as one "
                f"restored from a backup (it has batch {has}, and {landed[table.name]} had "
                "landed): going on would leave records out. Put the newer table back; or remove "
                f"the folder {checkpoint} and start again: what Kafka still has lands again, "
                "behind what the tables hold"
            )


def _app_id(known: Planned, table: Table) -> str:
    return f"{known.query_id}.{table.name}"


def _keep_topics(spark: SparkSession, settings: Settings, checkpoint: Path | str) -> None:
    """Keep which topics the checkpoint's offsets are of; refuse others by the same names."""
    files = CheckpointFiles(spark, checkpoint)
    numbers = files.numbers(_TOPICS)
    known: dict[str, str] = (
        json.loads(files.read(f"{_TOPICS}/{numbers[-1]}") or "{}") if numbers else {}
    )
    admin = admin_client(settings)
    there = matching_topics(admin, topics_pattern(Names(settings.topic_prefix)))
    ids = identify_topics(admin, there)
    others = [topic for topic in there if known.get(topic, ids[topic]) != ids[topic]]
    if others:
        raise ResolverError(
            f"{' and '.join(others)} was made anew since land's checkpoint {checkpoint} was, and "
            f"its offsets say nothing of it. Remove the folder {checkpoint} and start again: the "
            "tables keep what landed, and land goes on after it"
        )
    if ids.items() - known.items():
        number = numbers[-1] + 1 if numbers else 0
        try:
            files.create(f"{_TOPICS}/{number}", json.dumps({**known, **ids}))
        except FileExistsError as error:
            raise ResolverError(
                f"another land starts with checkpoint {checkpoint} too: give each its own, and its "
                "own tables"
            ) from error


def _oldest(settings: Settings) -> Oldest:
    return oldest_records(settings, topics_pattern(Names(settings.topic_prefix)))


def _behind(landed: Landed, oldest: Oldest) -> dict[str, dict[str, int]]:
    """Return it for every partition of every topic: Spark wants them all named."""
    starts: dict[str, dict[str, int]] = {}
    for topic, partition in oldest:
        greatest = landed.get(topic, {}).get(partition)
        starts.setdefault(topic, {})[str(partition)] = (
            _EARLIEST if greatest is None else greatest + 1
        )
    return starts


def _refuse_older(
    spark: SparkSession,
    settings: Settings,
    folder: Path | str,
    checkpoint: Path | str,
    known: Planned,
    tables: Sequence[Table],
) -> None:
    """Refuse a checkpoint that has not planned what the tables hold.

    From an older copy of it batches would be planned anew, with the same numbers and other
    records: Delta would take them for those it holds, and leave them out without a word. From one
    that another has taken over from since, records would land twice.
    """
    others = []
    for table in tables:
        wrote = writers(spark, table_path(folder, table))
        own, own_at_ms = wrote.pop(_app_id(known, table), (-1, -1))
        if own > known.batch_id:
            raise _older(checkpoint, f"{table.name} has its batch {own}, it knows {known.batch_id}")
        if any(at_ms >= own_at_ms for _, at_ms in wrote.values()):
            others.append(table)
    if others:
        _refuse_ahead(spark, settings, folder, checkpoint, known.ends, others)


def _refuse_ahead(
    spark: SparkSession,
    settings: Settings,
    folder: Path | str,
    checkpoint: Path | str,
    ends: Offsets,
    others: Sequence[Table],
) -> None:
    """Refuse where tables that another checkpoint wrote last hold what this one would land."""
    landed = landed_offsets(spark, folder, others, _oldest(settings))
    for topic, partitions in landed.items():
        for partition, offset in partitions.items():
            end = ends.get(topic, {}).get(partition, 0)
            if offset >= end:
                has = f"offset {offset} of partition {partition} of {topic}"
                raise _older(checkpoint, f"they hold {has}, it goes on from {end}")


def _older(checkpoint: Path | str, why: str) -> ResolverError:
    return ResolverError(
        f"the tables are ahead of land's checkpoint {checkpoint}, as of one restored from an older "
        f"copy ({why}): going on from it would leave records out or land them twice. Remove the "
        f"folder {checkpoint} and start again: the tables keep what landed, and land goes on "
        "after it"
    )
