"""What is kept beside Spark's checkpoint: identity, topics, planned settings, a rebuild's start.

DIR/spark has Spark's checkpoint; DIR/identity, topics, rebuild, ends and settings/N are JSON,
written as Spark writes its own, so that they can be wherever the checkpoint can.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

import orjson
from pyspark.sql import SparkSession

from .checkpoint_files import CheckpointFiles
from .errors import ResolverError, SettingsError
from .planned import PlannedSettings
from .step import StepSettings


class Checkpoint:
    """A resolver's checkpoint at a path or URI that Spark can write to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self.spark = f"{self.path}/spark"
        self._files = CheckpointFiles(spark, self.path)

    def identity(self) -> str:
        """Return this checkpoint's name, which is made with it and known before its query runs."""
        known = self._read("identity")
        if known is None:
            known = uuid.uuid4().hex
            self._create("identity", known)
        return str(known)

    def planned(self, settings: StepSettings) -> PlannedSettings:
        """Return the settings of the batches so far and, from the next on, `settings`.

        Raises `SettingsError` for another topic prefix than the checkpoint was made with.
        """
        numbers = self._files.numbers("settings")
        entries = [self._read(f"settings/{number}") for number in numbers]
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
            number = numbers[-1] + 1 if numbers else 0
            entry = {"first_batch": batch, "settings": asdict(settings)}
            self._create(f"settings/{number}", entry)
        return planned

    def keep_topics(self, ids: dict[str, str], partitions: int) -> None:
        """Keep of which topics its offsets are; raises `ResolverError` if it was of others."""
        known = self._read("topics")
        if known is None:
            self._create("topics", {"ids": ids, "partitions": partitions})
            return
        others = [topic for topic, known_id in known["ids"].items() if ids[topic] != known_id]
        if others:
            raise ResolverError(
                f"{' and '.join(others)} was made anew since checkpoint {self.path} was: where it "
                "had read up to says nothing of it. Start with --rebuild, on a new checkpoint, to "
                "resolve what is there now"
            )
        if known["partitions"] != partitions:
            raise SettingsError(
                f"checkpoint {self.path} was made with {known['partitions']} queues, and there are "
                f"{partitions} now: start with --rebuild, which makes a new one"
            )

    def is_rebuild(self) -> bool:
        """Whether this checkpoint was begun as a rebuild."""
        return self._read("rebuild") is not None

    def begin_rebuild(self) -> None:
        """Make this checkpoint a rebuild; raises `SettingsError` if it has run before.

        A batch that it has planned may have been delivered: by no rebuild, unless it is one.
        """
        if not self.is_new() or (self._next_batch() and not self.is_rebuild()):
            raise SettingsError(
                f"checkpoint {self.path} has batches; a rebuild needs a new one: give another path"
            )
        if not self.is_rebuild():
            self._create("rebuild", {})

    def rebuild_ends(self) -> dict[str, dict[str, int]] | None:
        """Return where the topics ended that the rebuild starts from, by topic and partition."""
        ends: dict[str, dict[str, int]] | None = self._read("ends")
        return ends

    def keep_rebuild_ends(self, ends: dict[str, dict[str, int]]) -> None:
        """Keep them: a first batch that is replayed must start from the same."""
        self._create("ends", ends)

    def is_new(self) -> bool:
        """Whether no batch of its query was committed yet."""
        return not self._files.numbers("spark/commits")

    def _next_batch(self) -> int:
        """Return the id of the first batch that Spark has not planned yet."""
        planned = self._files.numbers("spark/offsets")
        return planned[-1] + 1 if planned else 0

    def _read(self, name: str) -> Any:
        """Return what a file says; None where there is none."""
        text = self._files.read(name)
        try:
            return None if text is None else orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ResolverError(
                f"{self.path}/{name}, of the checkpoint, is damaged ({error}): put it back, or "
                "start with --rebuild, which makes a new checkpoint"
            ) from error

    def _create(self, name: str, entry: Any) -> None:
        try:
            self._files.create(name, orjson.dumps(entry).decode())
        except FileExistsError as error:
            raise ResolverError(
                f"another process starts with checkpoint {self.path} too: a resolver has its own"
            ) from error
