"""The home of `txresolver up`: all its data, under one folder, for one process at a time."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import TracebackType

from .errors import ResolverError
from .locks import FileLock

#: A process that is just ending may hold the lock for a moment.
_ENDING_SECONDS = 5.0


class Home:
    """The folders below a home; the lock is held for as long as the `with` lasts.

    | folder | what is there |
    | --- | --- |
    | `broker` | the embedded Kafka: its data, port and log |
    | `tables` | the Delta tables |
    | `checkpoints` | of the queries `resolve` and `land` |
    | `logs/spark.log` | what Spark and its workers say |
    | `spark` | what Spark keeps while it runs |
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.broker = self.path / "broker"
        self.tables = self.path / "tables"
        self.resolve_checkpoint = self.path / "checkpoints" / "resolve"
        self.land_checkpoint = self.path / "checkpoints" / "land"
        self.spark_log = self.path / "logs" / "spark.log"
        self._lock = FileLock(self.path / "lock")

    def __enter__(self) -> Home:
        self.spark_log.parent.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire_after(_ENDING_SECONDS):
            raise ResolverError(
                f"process {self._lock.owner()} runs in home {self.path}: stop it, or give another "
                "with --home"
            )
        # Of a run that was killed: copies of all jars, and local state.
        shutil.rmtree(self.path / "spark", ignore_errors=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def set_resolve_checkpoint_aside(self) -> None:
        """Make room for a rebuild's checkpoint; the old one is kept."""
        if self.resolve_checkpoint.exists():
            aside = f"{self.resolve_checkpoint.name}.{time.time_ns() // 1_000_000}"
            self.resolve_checkpoint.rename(self.resolve_checkpoint.with_name(aside))
