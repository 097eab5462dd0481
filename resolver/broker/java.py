"""The Java that runs the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ..errors import BrokerError

OLDEST = 17
ASKED_SECONDS = 60.0

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_REMEDY = (
    f"install Java {OLDEST} or 21, which Kafka and Spark need (on Debian: "
    "apt-get install openjdk-17-jre-headless; on macOS: brew install openjdk@17) "
    "or let JAVA_HOME name its folder"
)


def find_java() -> Path:
    """Return the `java` that Spark takes too: JAVA_HOME's, else the first on PATH."""
    java = locate_java()
    version = _major_version(java)
    if version < OLDEST:
        raise BrokerError(f"{java} is Java {version}, which is too old", remedy=_REMEDY)
    return java


def locate_java() -> Path:
    """Return the `java` without asking its version. Raises `BrokerError` where there is none."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
        raise BrokerError(f"JAVA_HOME is {home}, but there is no {java}", remedy=_REMEDY)
    if path := shutil.which("java"):
        return Path(path)
    raise BrokerError("no java on PATH, and JAVA_HOME is not set", remedy=_REMEDY)


def _major_version(java: Path) -> int:
    try:
        process = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASKED_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"{java} could not be run: {error}", remedy=_REMEDY) from error
    output = process.stderr + process.stdout
    version = _VERSION.search(output)
    if process.returncode or not version:
        raise BrokerError(f"{java} -version says no version but {output.strip()!r}", remedy=_REMEDY)
    return int(version[1])
