"""The resolver's files beside Spark's checkpoint: identity, topics, settings, a rebuild's start.

DIR/spark has Spark's checkpoint. DIR/identity, fences, topics, rebuild, ends and settings/N are
JSON. They are written as Spark writes its own files, so they can be wherever the checkpoint can.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import asdict
from typing import Any

import orjson
from pyspark.sql import SparkSession

from ..errors import ResolverError, SettingsError
from .checkpoint_files import CheckpointFiles
from .planned_settings import PlannedSettings
from .step import StepSettings


class Checkpoint:
    """A resolver's checkpoint at a path or URI that Spark can write to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self.spark = f"{self.path}/spark"
        self._files = CheckpointFiles(spark, self.path)

    def identity(self) -> str:
        """Return this checkpoint's name: made with the checkpoint, known before its query runs."""
        known = self._read("identity")
        if known is None:
            known = uuid.uuid4().hex
            self._create("identity", known)
        return str(known)

    def fence_secret(self) -> str:
        """Return the secret by which this checkpoint's resolver knows its own fences."""
        known = self._read("fences")
        if known is None:
            known = secrets.token_hex(32)
            self._create("fences", known)
        return str(known)

    def extend_planned_settings(self, settings: StepSettings) -> PlannedSettings:
        """Let `settings` hold from the next batch on; return the settings of all batches.

        Raises `SettingsError` if the checkpoint was made with another topic prefix.
        """
        numbers = self._files.numbers("settings")
        entries = [self._read(f"settings/{number}") for number in numbers]
        before = PlannedSettings(
            tuple((entry["first_batch"], StepSettings(**entry["settings"])) for entry in entries)
        )
        if before.entries and before.topic_prefix != settings.topic_prefix:
            raise SettingsError(
                f"topic_prefix is {settings.topic_prefix!r}, and checkpoint {self.path} was made "
                f"with {before.topic_prefix!r}",
                remedy="choose another checkpoint for another prefix",
            )
        batch = self.next_batch()
        planned = before.then(batch, settings)
        if planned is not before:
            number = numbers[-1] + 1 if numbers else 0
            entry = {"first_batch": batch, "settings": asdict(settings)}
            self._create(f"settings/{number}", entry)
        return planned

    def keep_topics(self, ids: dict[str, str], partitions: int) -> None:
        """Store the ids of the topics that the checkpoint's offsets belong to.

        Raises `ResolverError` if it has stored other ids, `SettingsError` if it was made with
        another number of queues.
        """
        known = self._read("topics")
        if known is None:
            self._create("topics", {"ids": ids, "partitions": partitions})
            return
        others = [topic for topic, known_id in known["ids"].items() if ids[topic] != known_id]
        if others:
            raise ResolverError(
                f"{' and '.join(others)} was made again since checkpoint {self.path} was: where it "
                "had read up to says nothing of it",
                remedy="start with --rebuild, on a new checkpoint, to resolve what is there now",
            )
        if known["partitions"] != partitions:
            raise SettingsError(
                f"checkpoint {self.path} was made with {known['partitions']} queues, and there are "
                f"{partitions} now",
                remedy="start with --rebuild, which makes a new one",
            )

    def is_rebuild(self) -> bool:
        """Whether this checkpoint was begun as a rebuild."""
        return self._read("rebuild") is not None

    def begin_rebuild(self) -> None:
        """Make this checkpoint a rebuild; raises `SettingsError` if it has run before.

        A planned batch may have been delivered. If the checkpoint is not a rebuild already, no
        rebuild delivered that batch.
        """
        if not self.is_new() or (self.next_batch() and not self.is_rebuild()):
            raise SettingsError(
                f"checkpoint {self.path} has batches; a rebuild needs a new one",
                remedy="give another path",
            )
        if not self.is_rebuild():
            self._create("rebuild", {})

    def rebuild_ends(self) -> dict[str, dict[str, int]] | None:
        """Return the end offsets that the rebuild starts from, by topic and partition."""
        ends: dict[str, dict[str, int]] | None = self._read("ends")
        return ends

    def keep_rebuild_ends(self, ends: dict[str, dict[str, int]]) -> None:
        """Store the end offsets: a replayed first batch must start from the same ones."""
        self._create("ends", ends)

    def is_new(self) -> bool:
        """Whether Spark has committed no batch of the query yet."""
        return not self._files.numbers("spark/commits")

    def next_batch(self) -> int:
        """Return the id of the first batch that Spark has not planned yet."""
        planned = self._files.numbers("spark/offsets")
        return planned[-1] + 1 if planned else 0

    def _read(self, name: str) -> Any:
        """Return a file's decoded JSON; None if the file does not exist."""
        text = self._files.read(name)
        try:
            return None if text is None else orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ResolverError(
                f"{self.path}/{name}, of the checkpoint, is damaged ({error})",
                remedy="put it back, or start with --rebuild, which makes a new checkpoint",
            ) from error

    def _create(self, name: str, entry: Any) -> None:
        try:
            self._files.create(name, orjson.dumps(entry).decode())
        except FileExistsError as error:
            raise ResolverError(
                f"another process starts with checkpoint {self.path} too",
                remedy="give each resolver its own",
            ) from error
