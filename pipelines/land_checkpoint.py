"""What Spark keeps of the land query in its checkpoint: who it is, and what it has planned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

#: For each topic and partition, the offset behind the last one of a range.
Offsets = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Planned:
    """The last batch that a query planned, committed or not; -1 where it has only a beginning."""

    query_id: str
    batch_id: int
    ends: Offsets


def planned(spark: SparkSession, checkpoint: Path | str) -> Planned | None:
    """Return how far the query of a checkpoint has planned, None where it is yet to begin."""
    files = _Files(spark, str(checkpoint))
    # Spark writes its source's first offsets here before it plans the first batch.
    begin = files.last_line("sources/0/0")
    if begin is None:
        return None
    batch_id = max((int(name) for name in files.names("offsets") if name.isdecimal()), default=-1)
    offsets = begin if batch_id < 0 else files.last_line(f"offsets/{batch_id}")
    identity = files.last_line("metadata")
    query_id = json.loads(identity)["id"] if identity else ""
    return Planned(query_id, batch_id, _by_number(json.loads(offsets or "{}")))


def _by_number(offsets: dict[str, dict[str, int]]) -> Offsets:
    return {
        topic: {int(partition): offset for partition, offset in partitions.items()}
        for topic, partitions in offsets.items()
    }


class _Files:
    """The files of a checkpoint, by Hadoop's file system: it may be on any."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
        self._jvm: Any = spark._jvm
        self._folder = folder
        self._system = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return [str(file.getPath().getName()) for file in self._system.listStatus(path)]

    def last_line(self, name: str) -> str | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text.strip().rpartition("\n")[2]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder.rstrip('/')}/{name}")
