"""This machine: versions, Java, jars, disk."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import confluent_kafka

from .. import __version__
from ..broker.jars import cache_folder
from ..broker.java import find_java
from ..errors import BrokerError, how_to_install
from .finding import Finding, error, ok, warning

#: Least free space of a home's disk, in bytes and as a share of the disk.
_LEAST_FREE_BYTES, _LEAST_FREE_SHARE = 2 << 30, 0.05
_ASKED_SECONDS = 60


def machine(home: Path) -> Iterator[Finding]:
    """Yield what is wrong with this machine."""
    yield ok("version", f"txresolver {__version__}, Python {_python()}")
    yield from _packages()
    yield from _java()
    yield from _jars()
    yield from _disk(home)


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _packages() -> Iterator[Finding]:
    librdkafka = confluent_kafka.libversion()[0]
    yield ok("version", f"confluent-kafka {confluent_kafka.__version__}, librdkafka {librdkafka}")
    if importlib.util.find_spec("pyspark") is None:
        yield warning("version", "PySpark is not installed", how_to_install("spark"))
        return
    spark, delta = metadata.version("pyspark"), metadata.version("delta-spark")
    seen = f"PySpark {spark}, delta-spark {delta}"
    if spark.startswith("4.2.") and delta.startswith("4.4."):
        yield ok("version", seen)
    else:
        remedy = f"they go together as 4.2 and 4.4: {how_to_install('spark')}"
        yield error("version", seen, remedy)


def _java() -> Iterator[Finding]:
    try:
        java = find_java()
    except BrokerError as failed:
        yield error("Java", str(failed), "see there")
        return
    asked = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=_ASKED_SECONDS, check=False
    )
    named = re.search(r'version "([^"]+)', asked.stderr + asked.stdout)
    yield ok("Java", f"{java} is Java {named[1] if named else '?'}")


def _jars() -> Iterator[Finding]:
    folder = cache_folder()
    there = sorted(path.name.partition("-")[0] for path in folder.glob("*-*") if path.is_dir())
    missing = {"kafka", "spark"} - set(there)
    if missing:
        yield warning(
            "jars",
            f"{folder} lacks those of {' and '.join(sorted(missing))}",
            "the first start fetches them; beforehand does `python -m resolver.broker jars`",
        )
    else:
        yield ok("jars", f"{folder} has {', '.join(there)}")


def _disk(home: Path) -> Iterator[Finding]:
    folder = next(path for path in (home, *home.parents) if path.exists())
    usage = shutil.disk_usage(folder)
    seen = f"{folder} has {usage.free / (1 << 30):,.1f} GiB free of {usage.total / (1 << 30):,.0f}"
    if usage.free < max(_LEAST_FREE_BYTES, _LEAST_FREE_SHARE * usage.total):
        remedy = "make room, or let --home name another disk: a full disk stops the resolver"
        yield warning("disk", seen, remedy)
    elif not os.access(folder, os.W_OK):
        yield error("disk", f"{folder} can't be written to", "run as its owner, or give --home")
    else:
        yield ok("disk", seen)
