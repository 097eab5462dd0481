"""An archive of Spark's classes as its JVM has them in memory, with which it starts sooner.

`python -m pipelines.class_archive` makes it, as `scripts/setup` does; the one that was made last is
kept. Without it, and where a JVM finds that it does not fit, a start only takes longer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext

from pipelines.output import output_to
from resolver.broker.jars import pyspark_jars
from resolver.broker.java import locate_java
from resolver.errors import BrokerError, ResolverError, TxResolverError
from resolver.settings import Settings

#: Where the archive is kept.
FOLDER = Path(sys.prefix) / "share" / "txresolver"
#: For how long the JVM may write.
_WRITE_SECONDS = 300.0


def archive_options() -> list[str]:
    """Return a JVM's options for the archive; none where there is no archive for it."""
    try:
        archive = _archive()
    except BrokerError:  # Spark may know a Java that we don't
        return []
    # A JVM that can't use it, having another collector, say, goes on without a word.
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f'"-XX:SharedArchiveFile={archive}"', *quiet] if os.access(archive, os.R_OK) else []


def main() -> int:
    """Make the archive if there is none yet; return the exit code."""
    try:
        archive = _archive()
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
    """The archive is written: what was started for it may end."""


def _make(archive: Path) -> None:
    """Let a JVM that runs both jobs write it."""
    # Only here: the session, which these need, asks this module for its options.
    from pipelines.up import run

    folder = archive.parent / "making"  # after a failure it stays, for a look at its logs
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / archive.name
    made.unlink(missing_ok=True)  # of one that was interrupted

    def write(_ready: str) -> None:
        _end_jvm()
        raise _Written

    option = {"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={made}"'}
    settings = Settings(queues=2, spark=option)
    with (folder / "log").open("ab") as log, output_to(log.fileno()), suppress(_Written):
        run(folder / "home", settings, rebuild=False, ready=write)
        raise KeyboardInterrupt  # as it has ended by itself, it was told to stop
    if not made.exists():
        raise ResolverError(f"its JVM has written no archive; the logs are in {folder}")
    # A JVM dies of an archive that is cut short, as one that a power failure leaves may be.
    with made.open("rb") as file:
        os.fsync(file.fileno())
    made.rename(archive)
    for other in archive.parent.glob("*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _end_jvm() -> None:
    """Let the JVM end, and wait for it: at its end it writes what it was asked for."""
    gateway = cast(Any, SparkContext._gateway)
    with suppress(Py4JError, ConnectionError):  # it can't answer any more
        gateway.jvm.java.lang.System.exit(0)
    status = gateway.proc.wait(_WRITE_SECONDS)
    if status != 0:
        raise ResolverError(f"its JVM has ended with {status}")


def _archive() -> Path:
    """Return where the archive for this Java and this Spark is, or would be."""
    files = [locate_java().resolve(), *sorted(pyspark_jars())]
    known = [(str(file), file.stat().st_size, int(file.stat().st_mtime)) for file in files]
    key = hashlib.sha256(repr(known).encode()).hexdigest()[:12]
    return FOLDER / f"spark-{key}.jsa"


if __name__ == "__main__":
    sys.exit(main())
