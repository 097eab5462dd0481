"""A land query's checkpoint: the query's id, its last planned batch, and its landed batches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from ..resolve.checkpoint_files import CheckpointFiles

#: The end offset of a plan's range, by topic and partition.
PlanEndOffsets = dict[str, dict[int, int]]
#: A folder beside Spark's own. Its files are named by batches, and the last file counts.
_LANDED = "landed"


@dataclass(frozen=True)
class LandPlan:
    """The last plan of a query: its batch, committed or not, and up to where the batch reads.

    `batch_id` is -1 if the query has planned no batch: `end_offsets` are then its first offsets.
    """

    query_id: str
    batch_id: int
    end_offsets: PlanEndOffsets


def last_land_plan(spark: SparkSession, checkpoint: Path | str) -> LandPlan | None:
    """Return the last plan of a checkpoint's query; None if the query is yet to begin."""
    files = CheckpointFiles(spark, checkpoint)
    # Spark writes its source's first offsets here before it plans the first batch.
    begin = _last_line(files, "sources/0/0")
    if begin is None:
        return None
    batch_id = max(files.numbers("offsets"), default=-1)
    offsets = begin if batch_id < 0 else _last_line(files, f"offsets/{batch_id}")
    identity = _last_line(files, "metadata")
    query_id = json.loads(identity)["id"] if identity else ""
    return LandPlan(query_id, batch_id, _by_number(json.loads(offsets or "{}")))


def landed_batches(spark: SparkSession, checkpoint: Path | str) -> dict[str, int]:
    """Return by table the last landed batch with rows of that table, as `keep_landed` stored it."""
    files = CheckpointFiles(spark, checkpoint)
    kept = [files.read(f"{_LANDED}/{number}") for number in files.numbers(_LANDED)[-1:]]
    batches: dict[str, int] = json.loads(kept[0] or "") if kept else {}
    return batches


def keep_landed(
    spark: SparkSession, checkpoint: Path | str, batch_id: int, batches: dict[str, int]
) -> None:
    """Store the landed batches by table: a table that has less is older than its checkpoint."""
    files = CheckpointFiles(spark, checkpoint)
    before = files.numbers(_LANDED)
    if batch_id not in before:  # a replayed batch has its file already
        files.create(f"{_LANDED}/{batch_id}", json.dumps(batches))
    for number in before:
        if number < batch_id:
            files.remove(f"{_LANDED}/{number}")


def _last_line(files: CheckpointFiles, name: str) -> str | None:
    text = files.read(name)
    return None if text is None else text.strip().rpartition("\n")[2]


def _by_number(offsets: dict[str, dict[str, int]]) -> PlanEndOffsets:
    if not all(isinstance(partitions, dict) for partitions in offsets.values()):
        raise ValueError("a file of offsets is cut short")
    return {
        topic: {int(partition): offset for partition, offset in partitions.items()}
        for topic, partitions in offsets.items()
    }
