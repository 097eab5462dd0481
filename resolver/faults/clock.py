"""A clock that can be stepped, of Java alone: libfaketime, told by a file."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..broker.java import find_java
from ..errors import FaultError

#: libfaketime, where Debian has it.
_LIBRARY = "*/faketime/libfaketime.so.1"
_FILE = "clock"


def clock_environment(home: Path) -> dict[str, str]:
    """Return what makes Kafka take its time from a file in `home`: a Java that does."""
    found = sorted(Path("/usr/lib").glob(_LIBRARY))
    if not found:
        raise FaultError(
            "to step Kafka's clock takes libfaketime, and /usr/lib has none: on Debian "
            "`apt-get install libfaketime`, or leave that fault out by naming others with --only"
        )
    if not (home / _FILE).exists():
        set_clock(home, 0)
    options = {
        "LD_PRELOAD": found[0],
        "FAKETIME_TIMESTAMP_FILE": home / _FILE,
        "FAKETIME_CACHE_DURATION": 1,
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
    }
    words = ["exec", "env", *(f"{name}={value}" for name, value in options.items())]
    java = home / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f'#!/bin/sh\n{shlex.join([*words, str(find_java())])} "$@"\n')
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parents[1])}


def set_clock(home: Path, seconds: int) -> None:
    """Set the clock so far ahead of the machine's, or behind it."""
    new = home / f"{_FILE}.new"
    new.write_text(f"{seconds:+}\n")
    new.replace(home / _FILE)
