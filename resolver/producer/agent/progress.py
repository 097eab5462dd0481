"""Checks that are done, and how far their offsets may be committed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class CheckPosition(NamedTuple):
    """The position of a check in its topic."""

    partition: int
    offset: int


class _Partition:
    """Offsets that were read, in their order, until they and all before them are done.

    `next_offset` is behind the last offset that was read. `commit_offset` may be committed: all
    offsets before it are done.
    """

    def __init__(self, first: int) -> None:
        self.next_offset = first
        self.commit_offset = first
        self._read: deque[int] = deque()
        self._done: set[int] = set()

    def read(self, offset: int) -> None:
        self._read.append(offset)
        self.next_offset = offset + 1

    def done(self, offset: int) -> None:
        self._done.add(offset)
        while self._read and self._read[0] in self._done:
            self.commit_offset = self._read.popleft() + 1
            self._done.discard(self.commit_offset - 1)


class Progress:
    """The beginning of each partition that is done; checks behind it are asked again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[int, _Partition] = {}
        self._reported: dict[int, int] = {}

    def read(self, position: CheckPosition) -> None:
        """Note a check that was read; a step back, as after a rebalance, resets its partition."""
        with self._lock:
            known = self._partitions.get(position.partition)
            if known is None or position.offset < known.next_offset:
                known = self._partitions[position.partition] = _Partition(position.offset)
            known.read(position.offset)

    def done(self, position: CheckPosition) -> None:
        """Note that a check needs nothing more; ignore a check of a partition that was given up."""
        with self._lock:
            known = self._partitions.get(position.partition)
            if known is not None and known.commit_offset <= position.offset < known.next_offset:
                known.done(position.offset)

    def advanced(self) -> dict[int, int]:
        """Return the offsets to commit, of partitions that moved since the last call."""
        with self._lock:
            moved = {
                number: known.commit_offset
                for number, known in self._partitions.items()
                if known.commit_offset != self._reported.get(number, -1)
            }
            self._reported |= moved
            return moved

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop partitions that another member has now."""
        with self._lock:
            for number in partitions:
                self._partitions.pop(number, None)
                self._reported.pop(number, None)
