"""A loss of power: of a node's files goes what it had not yet told the system to put on the disk.

A preloaded library notes how long each file was at its last fsync. After a kill -9 the logs are cut
to that, or to somewhere between that and their end: some of the rest may have been written.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .compiled import compiled
from .node import DATA

_SOURCE = Path(__file__).with_name("power.c")
_SYNCED = "synced"
#: How often nothing at all is left of what was not synced.
_ALL_GONE = 0.5


class Cut(NamedTuple):
    """A log that was cut from one length to another."""

    log: Path
    before: int
    after: int


def preloaded(home: Path) -> dict[str, str]:
    """Return what lets a node of `home` note what it has synced."""
    home.mkdir(parents=True, exist_ok=True)
    return {"LD_PRELOAD": str(power_library(home)), "SYNCED_FILE": str(home / _SYNCED)}


def power_library(home: Path) -> Path:
    """Make the library; `FaultError` without a compiler."""
    return compiled(_SOURCE, home / "power.so", "to take the power from a broker")


def lose_power(home: Path, chance: random.Random) -> list[Cut]:
    """Cut the logs of a node that was killed; return those that have lost something."""
    journal = home / _SYNCED
    synced = synced_lengths(journal.read_text().splitlines()) if journal.exists() else {}
    logs = sorted((home / DATA).glob("*/*.log"))
    return list(_cut(logs, synced, chance))


def synced_lengths(journal: Iterable[str]) -> dict[int, int]:
    """Return how much of each file, by its inode, is on the disk for certain.

    An inode may have been another file's before: then more is left than need be, never less.
    """
    lengths: dict[int, int] = {}
    for line in journal:
        what, inode, length = line.split()
        known = lengths.get(int(inode), 0)
        lengths[int(inode)] = int(length) if what == "S" else min(known, int(length))
    return lengths


def _cut(logs: Iterable[Path], synced: dict[int, int], chance: random.Random) -> Iterator[Cut]:
    for log in logs:
        seen = log.stat()
        least = min(seen.st_size, synced.get(seen.st_ino, 0))
        is_gone = chance.random() < _ALL_GONE
        after = least if is_gone else chance.randint(least, seen.st_size)
        if after < seen.st_size:
            os.truncate(log, after)
            yield Cut(log, seen.st_size, after)
