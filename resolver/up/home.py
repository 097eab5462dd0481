"""The home of `txresolver up`: all its data, under one folder, for one process at a time."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from ..broker.locks import FileLock
from ..broker.ports import FILE as PORTS
from ..errors import ResolverError, SettingsError

#: The home of every command, unless it is given another.
DEFAULT_HOME = Path(".txresolver")

#: Time in seconds to wait for a process that is ending and may still hold the lock.
_ENDING_SECONDS = 5.0


class Home:
    """The folders below a home; the lock is held for the time of a `with` block.

    - `broker`: the embedded Kafka, with its data, port and log.
    - `tables`: the Delta tables.
    - `checkpoints`: of the queries `resolve` and `land`.
    - `logs/spark.log`: the output of Spark and its workers.
    - `logs/libraries.log`: what librdkafka writes, and in an audit Spark.
    - `spark`: Spark's own files while it runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))  # Path.resolve() fails at links in a circle
        self.broker = self.path / "broker"
        self.tables = self.path / "tables"
        self.resolve_checkpoint = self.path / "checkpoints" / "resolve"
        self.land_checkpoint = self.path / "checkpoints" / "land"
        self.spark_log = self.path / "logs" / "spark.log"
        self.library_log = self.path / "logs" / "libraries.log"
        self._lock = FileLock(self.path / "lock")

    def make(self) -> None:
        """Make the home's folders; raises `SettingsError` where one can't be made or written to."""
        logs, checkpoints = self.spark_log.parent, self.resolve_checkpoint.parent
        own = (self.broker, self.tables, checkpoints, logs, self.path / "spark")
        try:
            for folder in (self.path, *own):
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder) as probe:
                    probe.write(b"x")
            for file in (self._lock.path, self.spark_log, self.library_log):
                file.open("ab").close()
            with suppress(FileNotFoundError):
                (self.broker / PORTS).open("r+b").close()
        except OSError as error:
            raise SettingsError(
                f"home {self.path} can't be used: {error.filename or folder}: {error.strerror}",
                remedy="give a folder that you may write to, with --home",
            ) from error

    def __enter__(self) -> Home:
        self.make()
        if not self._lock.acquire_after(_ENDING_SECONDS):
            raise ResolverError(
                f"process {self._lock.owner()} runs in home {self.path}",
                remedy="stop it, or give another with --home",
            )
        # Remove the leftovers of a killed run: copies of all jars, and local state.
        shutil.rmtree(self.path / "spark", ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def set_resolve_checkpoint_aside(self) -> None:
        """Make room for a rebuild's checkpoint; the old one is kept."""
        if self.resolve_checkpoint.exists():
            aside = f"{self.resolve_checkpoint.name}.{time.time_ns() // 1_000_000}"
            self.resolve_checkpoint.rename(self.resolve_checkpoint.with_name(aside))
