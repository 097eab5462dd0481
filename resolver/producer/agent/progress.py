"""Checks that are done, and how far their offsets may be committed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Place(NamedTuple):
    """The position of a check in its topic."""

    partition: int
    offset: int


class _Partition:
    """Offsets that were read, in their order, until they and all before them are done."""

    def __init__(self, first: int) -> None:
        self.reading = first
        self.position = first
        self._read: deque[int] = deque()
        self._done: set[int] = set()

    def read(self, offset: int) -> None:
        self._read.append(offset)
        self.reading = offset + 1

    def done(self, offset: int) -> None:
        self._done.add(offset)
        while self._read and self._read[0] in self._done:
            self.position = self._read.popleft() + 1
            self._done.discard(self.position - 1)


class Progress:
    """The done beginning of each partition; checks behind it are asked again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[int, _Partition] = {}
        self._told: dict[int, int] = {}

    def read(self, place: Place) -> None:
        """Note a check that was read; a step back, as after a rebalance, resets its partition."""
        with self._lock:
            known = self._partitions.get(place.partition)
            if known is None or place.offset < known.reading:
                known = self._partitions[place.partition] = _Partition(place.offset)
            known.read(place.offset)

    def done(self, place: Place) -> None:
        """Note that a check needs nothing more; ignore a check of a partition that was given up."""
        with self._lock:
            known = self._partitions.get(place.partition)
            if known is not None and known.position <= place.offset < known.reading:
                known.done(place.offset)

    def advanced(self) -> dict[int, int]:
        """Return the positions to commit, of partitions that moved since the last call."""
        with self._lock:
            moved = {
                number: known.position
                for number, known in self._partitions.items()
                if known.position != self._told.get(number, -1)
            }
            self._told |= moved
            return moved

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop partitions that another member has now."""
        with self._lock:
            for number in partitions:
                self._partitions.pop(number, None)
                self._told.pop(number, None)
