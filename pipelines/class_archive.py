"""An archive of Spark's classes as its JVM has them in memory: starts take a quarter less with it.

`python -m pipelines.class_archive` makes it, once for each Java and each Spark; `scripts/setup`
does that. Without it, and where a JVM finds that it does not fit, all is as it is, but slower.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
from pathlib import Path

import pyspark

from pipelines.output import output_to
from resolver.broker.java import locate_java
from resolver.errors import ResolverError, TxResolverError
from resolver.settings import Settings


def archive_options() -> list[str]:
    """Return a JVM's options for the archive; none where there is no archive for it."""
    archive = _archive()
    # A JVM that can't use it, having another collector, say, goes on without a word.
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f'"-XX:SharedArchiveFile={archive}"', *quiet] if archive.exists() else []


def main() -> int:
    """Make the archive if there is none yet; return the exit code."""
    try:
        archive = _archive()
        if not archive.exists():
            print("Spark: makes an archive of its classes for quick starts (once)", file=sys.stderr)
            _make(archive)
    except (TxResolverError, OSError) as error:
        print(f"error: no archive, so Spark starts more slowly: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _make(archive: Path) -> None:
    """Let a JVM that has run both jobs write it at its end."""
    # Only here: the session, which these need, asks this module for its options.
    from pipelines.up import run

    said: list[str] = []

    def is_ready(line: str) -> None:
        said.append(line)
        os.kill(os.getpid(), signal.SIGTERM)

    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="making-") as folder:
        made = Path(folder) / archive.name
        option = {"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={made}"'}
        with (Path(folder) / "log").open("ab") as log, output_to(log.fileno()):
            settings = Settings(queues=2, spark=option)
            run(Path(folder) / "home", settings, rebuild=False, ready=is_ready)
        if not said:  # stopped, and not by us
            raise KeyboardInterrupt
        if not made.exists():
            raise ResolverError("the JVM has written none")
        for other in archive.parent.glob("*.jsa"):
            other.unlink(missing_ok=True)
        made.rename(archive)


def _archive() -> Path:
    """Return where the archive is, or would be; another Java or another Spark has another."""
    java = locate_java().resolve()
    spark = Path(pyspark.__file__).parent
    files = [java, *sorted((spark / "jars").glob("*.jar"))]
    known = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.sha256(repr(known).encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "txresolver" / f"spark-{key}.jsa"


if __name__ == "__main__":
    sys.exit(main())
