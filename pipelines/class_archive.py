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

from resolver.broker.java import locate_java
from resolver.errors import TxResolverError
from resolver.settings import Settings


def archive_options() -> list[str]:
    """Return a JVM's options for the archive; none where there is no archive for it."""
    archive = _archive()
    # A JVM that can't use it, having another collector, say, goes on without a word.
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f'"-XX:SharedArchiveFile={archive}"', *quiet] if archive.exists() else []


def main() -> int:
    """Make the archive of a JVM that has run both jobs; return the exit code."""
    # Only here: the session, which these need, asks this module for its options.
    from pipelines.up import run

    archive = _archive()
    if archive.exists():
        return 0
    print("Spark: makes an archive of its classes for quick starts (once)", file=sys.stderr)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="making-") as folder:
        made = Path(folder) / archive.name
        option = {"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={made}"'}
        settings = Settings(queues=2, spark=option)
        try:
            run(Path(folder) / "home", settings, rebuild=False, ready=_stop)
        except TxResolverError as error:
            print(f"error: {error}", file=sys.stderr)
        if not made.exists():
            print("Spark: no archive of its classes: starts take longer", file=sys.stderr)
            return 1
        for other in archive.parent.glob("*.jsa"):
            other.unlink(missing_ok=True)
        made.rename(archive)
    return 0


def _stop(_ready: str) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


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
