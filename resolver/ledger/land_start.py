"""The land query's beginning, and the refusal to go on from an older copy of its checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import ResolverError
from ..kafka.clients import admin_client
from ..kafka.oldest import Oldest, oldest_records
from ..kafka.topic_admin import identify_topics, matching_topics
from ..protocol import Names
from ..resolve.checkpoint_files import CheckpointFiles
from ..settings import Settings
from . import PARKED, TABLES, Table, topics_pattern
from .delta import Landed, landed_offsets, table_path, writers
from .land_checkpoint import LandPlan, PlanEndOffsets, landed_batches, last_land_plan

_EARLIEST = -2  # Spark's word for the earliest offset in JSON
#: By table, what `writers` returns.
_TableWriters = dict[Table, dict[str, tuple[int, int]]]
#: Spark's words when it finds other partitions than `startingOffsets` names.
_OTHERS = "you must specify all TopicPartitions"
_BEGIN_SECONDS = 30.0
_LOOK_SECONDS = 0.1
#: The folder of a checkpoint with the ids of topics: the last file has all ids.
_TOPICS = "topics"


def starting_offsets(
    spark: SparkSession,
    settings: Settings,
    folder: Path | str,
    checkpoint: Path | str,
    missing: Sequence[Table],
) -> str:
    """Return `startingOffsets`: after the tables' records; the tables are empty at the first start.

    A topic's partition lands in one table, and a batch's part of it in one commit. So the missing
    records begin exactly after the greatest landed offset. This holds wherever an earlier run was
    killed, even between two tables of a batch: nothing lands twice, nothing is left out. A query
    that has its checkpoint goes on from the checkpoint, whatever this returns.

    Raises `ResolverError` if the tables are ahead of the checkpoint, behind it, or gone
    (`missing`). Raises it too if a topic was made again.
    """
    there = [table for table in TABLES if table not in missing]
    plan = last_land_plan(spark, checkpoint)
    if plan is not None:
        _refuse_lost(folder, checkpoint, plan, _had_landed(spark, checkpoint, missing))
        table_writers = {table: writers(spark, table_path(folder, table)) for table in there}
        _refuse_behind(spark, folder, checkpoint, plan, table_writers)
        _refuse_older(spark, settings, folder, checkpoint, plan, table_writers)
    _keep_topics(spark, settings, checkpoint)
    if plan is not None or not there:
        return "earliest"
    oldest = _oldest(settings)
    landed = landed_offsets(spark, folder, there, oldest)
    return json.dumps(_behind(landed, oldest)) if landed else "earliest"


def met_others(spark: SparkSession, query: StreamingQuery, checkpoint: Path | str) -> bool:
    """Whether a query ended before its first batch, because a topic was made while it started.

    Waits until the query has stored its first offsets; this may not happen while Kafka does not
    answer.
    """
    until = time.monotonic() + _BEGIN_SECONDS
    while query.isActive and last_land_plan(spark, checkpoint) is None and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    return _OTHERS in str(query.exception())


def _had_landed(
    spark: SparkSession, checkpoint: Path | str, missing: Sequence[Table]
) -> list[Table]:
    """Leave out `parked` if no row of it has landed: an older version of land had no such table."""
    landed = landed_batches(spark, checkpoint)
    return [table for table in missing if table is not PARKED or table.name in landed]


def _refuse_lost(
    folder: Path | str, checkpoint: Path | str, plan: LandPlan, missing: Sequence[Table]
) -> None:
    """Refuse to go on if tables are gone: they are made before the first batch is planned."""
    if missing and plan.batch_id >= 0:
        names = ", ".join(table.name for table in missing)
        raise ResolverError(
            f"{names}: no such table in {folder}, and land's checkpoint {checkpoint} has batches "
            "that landed there",
            remedy="give the right folders or put the tables back; if they are lost, remove the "
            f"folder {checkpoint} and start again: what Kafka still has lands again",
        )


def _refuse_behind(
    spark: SparkSession,
    folder: Path | str,
    checkpoint: Path | str,
    plan: LandPlan,
    table_writers: _TableWriters,
) -> None:
    """Refuse tables without rows that had landed there: going on would leave a gap for good."""
    landed = landed_batches(spark, checkpoint)
    for table, by_app in table_writers.items():
        has, _ = by_app.get(_app_id(plan, table), (-1, -1))
        if has < landed.get(table.name, -1):
            raise ResolverError(
                f"{table.name} in {folder} is older than land's checkpoint {checkpoint}, as one "
                f"restored from a backup (it has batch {has}, and {landed[table.name]} had "
                "landed): going on would leave records out",
                remedy=f"put the newer table back; or remove the folder {checkpoint} and start "
                "again: what Kafka still has lands again, behind what the tables hold",
            )


def _app_id(plan: LandPlan, table: Table) -> str:
    return f"{plan.query_id}.{table.name}"


def _keep_topics(spark: SparkSession, settings: Settings, checkpoint: Path | str) -> None:
    """Store the ids of the topics of the checkpoint's offsets; refuse others of the same names."""
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
            f"{' and '.join(others)} was made again since land's checkpoint {checkpoint} was, and "
            "its offsets say nothing of it",
            remedy=f"remove the folder {checkpoint} and start again: the tables keep what landed, "
            "and land goes on after it",
        )
    if ids.items() - known.items():
        number = numbers[-1] + 1 if numbers else 0
        try:
            files.create(f"{_TOPICS}/{number}", json.dumps({**known, **ids}))
        except FileExistsError as error:
            raise ResolverError(
                f"another land starts with checkpoint {checkpoint} too",
                remedy="give each its own, and its own tables",
            ) from error


def _oldest(settings: Settings) -> Oldest:
    return oldest_records(settings, topics_pattern(Names(settings.topic_prefix)))


def _behind(landed: Landed, oldest: Oldest) -> dict[str, dict[str, int]]:
    """Return where to start every partition of every topic: Spark wants all of them named."""
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
    plan: LandPlan,
    table_writers: _TableWriters,
) -> None:
    """Refuse a checkpoint that has not planned the batches that the tables hold.

    An older copy of the checkpoint would plan batches again, with the same numbers and other
    records. Delta would take them for batches that it holds, and leave them out without a word. A
    checkpoint that another checkpoint has replaced since would land records twice.
    """
    others = []
    for table, by_app in table_writers.items():
        app = _app_id(plan, table)
        own, own_at_ms = by_app.get(app, (-1, -1))
        if own > plan.batch_id:
            raise _older(checkpoint, f"{table.name} has its batch {own}, it knows {plan.batch_id}")
        if any(at_ms >= own_at_ms for other, (_, at_ms) in by_app.items() if other != app):
            others.append(table)
    if others:
        _refuse_ahead(spark, settings, folder, checkpoint, plan.end_offsets, others)


def _refuse_ahead(
    spark: SparkSession,
    settings: Settings,
    folder: Path | str,
    checkpoint: Path | str,
    end_offsets: PlanEndOffsets,
    others: Sequence[Table],
) -> None:
    """Refuse if tables that another checkpoint wrote last hold this checkpoint's next records."""
    landed = landed_offsets(spark, folder, others, _oldest(settings))
    for topic, partitions in landed.items():
        for partition, offset in partitions.items():
            end = end_offsets.get(topic, {}).get(partition, 0)
            if offset >= end:
                has = f"offset {offset} of partition {partition} of {topic}"
                raise _older(checkpoint, f"they hold {has}, it goes on from {end}")


def _older(checkpoint: Path | str, why: str) -> ResolverError:
    return ResolverError(
        f"the tables are ahead of land's checkpoint {checkpoint}, as of one restored from an older "
        f"copy ({why}): going on from it would leave records out or land them twice",
        remedy=f"remove the folder {checkpoint} and start again: the tables keep what landed, and "
        "land goes on after it",
    )
