"""Kafka's clock, which can be stepped while it runs: a Java that takes its time from a file."""

from __future__ import annotations

import shlex
import struct
from pathlib import Path

from resolver.broker.java import find_java

from .compiled import compiled

_SOURCE = Path(__file__).with_name("clock.c")
_FILE = "clock"


def clock_environment(home: Path) -> dict[str, str]:
    """Return the environment in which Kafka runs by the clock of `home`; only its Java does."""
    words = ["exec", "env", *(f"{name}={value}" for name, value in preloaded(home).items())]
    java = home / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f'#!/bin/sh\n{shlex.join([*words, str(find_java())])} "$@"\n')
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parents[1])}


def preloaded(home: Path) -> dict[str, str]:
    """Return the environment in which a process runs by the clock of `home`.

    Raises `FaultError` without a compiler.
    """
    if not (home / _FILE).exists():
        set_clock(home, 0)
    return {"LD_PRELOAD": str(clock_library(home)), "CLOCK_FILE": str(home / _FILE)}


def set_clock(home: Path, seconds: int) -> None:
    """Set the clock ahead of the machine's by some seconds, or behind it, at once."""
    file = home / _FILE
    file.touch()
    with file.open("r+b", buffering=0) as mapped:  # not a new file: this one is mapped
        mapped.write(struct.pack("@l", seconds))


def clock(home: Path) -> int:
    """Return how far ahead the clock was set."""
    (seconds,) = struct.unpack("@l", (home / _FILE).read_bytes())
    return int(seconds)


def clock_library(home: Path) -> Path:
    """Make the library that a process takes its clock from; `FaultError` without a compiler."""
    return compiled(_SOURCE, home / "clock.so", "to step Kafka's clock")
