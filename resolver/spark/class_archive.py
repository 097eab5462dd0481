"""An archive of Spark's classes as its JVM has them in memory: the JVM starts sooner with it.

`resolver.up.archive` makes it, and keeps only the last one. Without an archive, or where a JVM
finds that it does not fit, a start only takes longer.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from ..broker.jars import pyspark_jars
from ..broker.java import locate_java
from ..errors import BrokerError

#: Folder of the archive.
FOLDER = Path(sys.prefix) / "share" / "txresolver"


def archive_options() -> list[str]:
    """Return a JVM's options for the archive; none where no archive exists."""
    try:
        archive = archive_file()
    except BrokerError:  # Spark may know a Java that we don't
        return []
    # Silence the JVM's log of the archive. A JVM that can't use it, for example for its other
    # collector, goes on without it.
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f'"-XX:SharedArchiveFile={archive}"', *quiet] if os.access(archive, os.R_OK) else []


def archive_file() -> Path:
    """Return the path of the archive for this Java and this Spark, whether it exists or not."""
    files = [locate_java().resolve(), *sorted(pyspark_jars())]
    file_stats = [(str(file), file.stat().st_size, int(file.stat().st_mtime)) for file in files]
    key = hashlib.sha256(repr(file_stats).encode()).hexdigest()[:12]
    return FOLDER / f"spark-{key}.jsa"
