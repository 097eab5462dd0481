"""Makes the archive of Spark's classes: `python -m resolver.up.archive`, in scripts/setup."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext

from ..errors import ResolverError, TxResolverError
from ..settings import Settings
from ..spark.class_archive import archive_file
from ..spark.output import output_to
from ..spark.session import FIRST_COMPILER
from .run import run

#: Time in seconds for the JVM to write.
_WRITE_SECONDS = 300.0


def main() -> int:
    """Make the archive if there is none yet; return the exit code."""
    try:
        archive = archive_file()
        if not archive.exists():
            print("Spark: archiving its classes, once, to start sooner (a minute)", file=sys.stderr)
            _make(archive)
    except (TxResolverError, OSError) as error:
        print(f"Spark starts as slowly as before: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


class _Written(Exception):
    """The archive is written: the processes that were started for it may end."""


def _make(archive: Path) -> None:
    """Let a JVM that runs both jobs write the archive."""
    folder = archive.parent / "making"  # stays after a failure, for a look at its logs
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / archive.name
    made.unlink(missing_ok=True)  # left by an interrupted run

    def write(line: str) -> None:
        if line.startswith("ready"):
            _end_jvm()
            raise _Written

    options = " ".join([f'"-XX:ArchiveClassesAtExit={made}"', *FIRST_COMPILER])
    settings = Settings(queues=2, spark={"spark.driver.extraJavaOptions": options})
    with (folder / "log").open("ab") as log, output_to(log.fileno()), suppress(_Written):
        run(folder / "home", settings, rebuild=False, say=write)
        raise KeyboardInterrupt  # run() has ended by itself, so it was told to stop
    if not made.exists():
        raise ResolverError("its JVM has written no archive", remedy=f"see the logs in {folder}")
    # Write it to the disk: a power failure could cut it short, and a JVM dies of a cut archive.
    with made.open("rb") as file:
        os.fsync(file.fileno())
    made.rename(archive)
    for other in archive.parent.glob("*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _end_jvm() -> None:
    """End the JVM, and wait for its end, at which it writes the archive."""
    gateway = cast(Any, SparkContext._gateway)
    with suppress(Py4JError, ConnectionError):  # it can't answer any more
        gateway.jvm.java.lang.System.exit(0)
    status = gateway.proc.wait(_WRITE_SECONDS)
    if status != 0:
        raise ResolverError(f"its JVM has ended with {status}")


if __name__ == "__main__":
    sys.exit(main())
