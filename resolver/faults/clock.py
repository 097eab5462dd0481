"""A clock that can be stepped, for one process: libfaketime, told by a file."""

from __future__ import annotations

from pathlib import Path

from ..errors import FaultError

#: libfaketime, where Debian has it.
_LIBRARY = "*/faketime/libfaketime.so.1"
_FILE = "clock"


def clock_environment(home: Path) -> dict[str, str]:
    """Return what makes a process take its time from a file in `home`, as it is set."""
    found = sorted(Path("/usr/lib").glob(_LIBRARY))
    if not found:
        raise FaultError(
            "to step Kafka's clock takes libfaketime, and /usr/lib has none: on Debian "
            "`apt-get install libfaketime`, or leave that fault out by naming others with --only"
        )
    if not (home / _FILE).exists():
        set_clock(home, 0)
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(home / _FILE),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def set_clock(home: Path, seconds: int) -> None:
    """Set the clock so far ahead of the machine's, or behind it."""
    new = home / f"{_FILE}.new"
    new.write_text(f"{seconds:+}\n")
    new.replace(home / _FILE)
