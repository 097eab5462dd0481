"""Jars of Kafka and of Spark's connectors: resolved once by jgo, then cached."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ..errors import BrokerError, how_to_install
from .locks import FileLock

#: Variable with the folder of the jars, instead of the user's cache folder.
CACHE_VARIABLE = "TXRESOLVER_JAR_CACHE"

# Resolve each set by itself. Together, the versions that log4j's own build manages (an old
# kafka-clients among them) would win over Kafka's.
KAFKA = ("org.apache.kafka:kafka_2.13:4.3.1",)
#: Bridge from slf4j 1, to which Kafka logs, to log4j 2.25.4. Kafka leaves it to its package.
KAFKA_LOGGING = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",)
#: Kafka's command-line tools; a broker does without them.
TOOLS = ("org.apache.kafka:kafka-tools:4.3.1",)
SPARK = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    # Version 4.0.0, since some partial Maven mirrors have no newer one. It has every member that
    # the connector 4.2.0 refers to; a cluster's `--packages` takes the connector's own version.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "io.delta:delta-spark_4.2_2.13:4.4.0",
)

_VERSION = re.compile(r"-\d[^/]*$")


def kafka_classpath() -> list[Path]:
    """Return the jars of a Kafka broker; fetch them if they are not cached."""
    return cached_jars("Kafka", [KAFKA, KAFKA_LOGGING], present=())


def tools_classpath() -> list[Path]:
    """Return the jars that Kafka's command-line tools need beside the broker's."""
    return cached_jars("Tools", [TOOLS], present=[jar.name for jar in kafka_classpath()])


def spark_jars() -> list[Path]:
    """Return the jars that Spark needs beside PySpark's own: Kafka's connector and Delta."""
    return cached_jars("Spark", [SPARK], present=[jar.name for jar in pyspark_jars()])


def pyspark_jars() -> list[Path]:
    """Return PySpark's own jars; raises `BrokerError` where it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BrokerError(
            "Spark is not installed", remedy=f"install it with {how_to_install('spark')}"
        )
    return list((Path(spec.origin).parent / "jars").glob("*.jar"))


def cache_folder() -> Path:
    """Return the folder of all jars."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "txresolver" / "jars"


def cached_jars(name: str, endpoints: list[tuple[str, ...]], present: Iterable[str]) -> list[Path]:
    """Return a set's jars. Its folder appears by a rename, so it is complete or missing."""
    left_out = sorted(present)
    key = hashlib.sha256(repr((endpoints, left_out)).encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name.lower()}-{key}"
    if not folder.is_dir():
        with FileLock(cache_folder() / "lock") as lock:
            lock.acquire(lambda: _say(f"another process fetches jars into {folder.parent}: waits"))
            if not folder.is_dir():
                _fill(folder, name, endpoints, {_artifact(jar) for jar in left_out})
    return sorted(folder.glob("*.jar"))


def _fill(folder: Path, name: str, endpoints: list[tuple[str, ...]], present: set[str]) -> None:
    _say(f"{name}'s jars are not cached: resolving {' '.join(c for e in endpoints for c in e)}")
    chosen: dict[str, Path] = {}
    for endpoint in endpoints:
        for jar in _resolve("+".join(endpoint)):
            if _artifact(jar.name) not in present:
                chosen.setdefault(_artifact(jar.name), jar)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="filling-") as filling:
        complete = Path(filling) / folder.name
        complete.mkdir()
        for jar in chosen.values():
            shutil.copyfile(jar, complete / jar.name)
        complete.rename(folder)
    _say(f"{name}: {len(chosen)} jars in {folder}")


def _resolve(endpoint: str) -> list[Path]:
    """Return the jars that jgo names, and pass its progress on, a line for each file."""
    if importlib.util.find_spec("jgo") is None:
        raise BrokerError(
            "jars are fetched by jgo, which is not installed",
            remedy=f"install it with {how_to_install('cli')}",
        )
    command = [sys.executable, "-m", "jgo", "--color", "plain", "--wrap", "raw"]
    jgo = subprocess.Popen(
        [*command, "info", "jars", endpoint],
        env={"JGO_TIMEOUT": "60", **os.environ, "COLUMNS": "160"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with jgo:
        lines = [_passed_on(line.rstrip()) for line in jgo.stdout or ()]
    jars = [Path(line.strip()) for line in lines if line.strip().endswith(".jar")]
    jars = [jar for jar in jars if jar.is_file()]
    if jgo.returncode or not jars:
        tail = "\n  ".join(line for line in lines[-15:] if line.strip())
        raise BrokerError(
            f"jgo could not resolve {endpoint} (exit {jgo.returncode}):\n  {tail}\n"
            "Maven Central, or the mirror named in jgo's configuration, may be out of reach",
            remedy=f"on a machine without network, copy the folder {cache_folder()} from another "
            "one",
        )
    return jars


def _passed_on(line: str) -> str:
    if line.startswith("Downloading ") and ".jar" in line:
        _say(f"  {line.split()[1]}")
    return line


def _artifact(jar: str) -> str:
    """Return a jar's name without its version: two versions of an artifact are one too many."""
    return _VERSION.sub("", jar.removesuffix(".jar"))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
