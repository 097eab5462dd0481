"""What is kept beside Spark's own checkpoint: its identity, planned settings, a rebuild's start.

DIR/spark has Spark's checkpoint; DIR/identity, settings, rebuild and outcomes have a few lines of
JSON, read and written by Spark, so that they can be wherever the checkpoint can.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

import orjson
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from .errors import ResolverError, SettingsError
from .planned import PlannedSettings
from .step import StepSettings


class Checkpoint:
    """A resolver's checkpoint at a path or URI that Spark can write to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self.path = path.rstrip("/")
        self.spark = f"{self.path}/spark"

    def identity(self) -> str:
        """Return this checkpoint's name, which is made with it and known before its query runs."""
        known = self._read("identity")
        if not known:
            known = [uuid.uuid4().hex]
            self._append("identity", known[0])
        return str(known[0])

    def planned(self, settings: StepSettings) -> PlannedSettings:
        """Return the settings of the batches so far and, from the next on, `settings`.

        Raises `SettingsError` for another topic prefix than the checkpoint was made with.
        """
        entries = sorted(self._read("settings"), key=lambda entry: int(entry["number"]))
        before = PlannedSettings(
            tuple((entry["first_batch"], StepSettings(**entry["settings"])) for entry in entries)
        )
        if before.entries and before.topic_prefix != settings.topic_prefix:
            raise SettingsError(
                f"topic_prefix is {settings.topic_prefix!r}, and checkpoint {self.path} was made "
                f"with {before.topic_prefix!r}; choose another checkpoint for another prefix"
            )
        batch = self._next_batch()
        planned = before.then(batch, settings)
        if planned is not before:
            entry = {"number": len(entries), "first_batch": batch, "settings": asdict(settings)}
            self._append("settings", entry)
        return planned

    def is_rebuild(self) -> bool:
        """Whether this checkpoint was begun as a rebuild."""
        return bool(self._read("rebuild"))

    def begin_rebuild(self) -> None:
        """Make this checkpoint a rebuild; raises `SettingsError` if it has run before."""
        if not self.is_new():
            raise SettingsError(
                f"checkpoint {self.path} has batches; a rebuild needs a new one: give another path"
            )
        if not self.is_rebuild():
            self._append("rebuild", {})

    def outcome_ends(self) -> dict[str, int] | None:
        """Return the end offsets, by partition, of the outcomes that the rebuild starts from."""
        found = self._read("outcomes")
        return found[0] if found else None

    def keep_outcome_ends(self, ends: dict[str, int]) -> None:
        """Keep them: a first batch that is replayed must start from the same."""
        self._append("outcomes", ends)

    def is_new(self) -> bool:
        """Whether no batch of its query was committed yet."""
        return not self._lines("spark/commits")

    def _next_batch(self) -> int:
        """Return the id of the first batch that Spark has not planned yet."""
        # By Hadoop's file system, since a checkpoint may be on any. What Spark has not finished
        # writing has no number for a name.
        assert self._spark._jvm is not None  # noqa: S101 - only Spark Connect has none
        folder = self._spark._jvm.org.apache.hadoop.fs.Path(f"{self.spark}/offsets")
        files = folder.getFileSystem(self._spark._jsc.hadoopConfiguration())
        if not files.exists(folder):
            return 0
        names = [file.getPath().getName() for file in files.listStatus(folder)]
        return max((int(name) + 1 for name in names if name.isdecimal()), default=0)

    def _read(self, name: str) -> list[Any]:
        try:
            return [orjson.loads(line) for line in self._lines(name)]
        except orjson.JSONDecodeError as error:
            raise ResolverError(
                f"{self.path}/{name}, of the checkpoint, is damaged ({error}): put it back, or "
                "start with --rebuild, which makes a new checkpoint"
            ) from error

    def _lines(self, name: str) -> list[str]:
        try:
            return [row.value for row in self._spark.read.text(f"{self.path}/{name}").collect()]
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise

    def _append(self, name: str, entry: Any) -> None:
        line = orjson.dumps(entry).decode()
        frame = self._spark.createDataFrame([(line,)], "value string").coalesce(1)
        frame.write.mode("append").text(f"{self.path}/{name}")
