"""The times of numbered transactions, in a file that several processes have mapped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]

_NUMBER_BYTES = 8


def body_of(number: int, size: int) -> bytes:
    """Return a body of `size` bytes that begins with the transaction's number."""
    return number.to_bytes(_NUMBER_BYTES, "big").ljust(size, b"x")


def numbers_in(bodies: list[bytes]) -> Numbers:
    """Return the numbers of bodies."""
    heads = b"".join(body[:_NUMBER_BYTES] for body in bodies)
    return np.frombuffer(heads, ">i8").astype(np.int64)


class SentLog:
    """When each transaction was ended (or its check due), when its message was first visible.

    `since` and `visible` are seconds since 1970, 0 where that has not happened; `seen` is how often
    the message was. One process writes each, any may read.
    """

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(3 * 8 * count + 8)  # without writing it: what is not used is a hole
        self.since: Times = np.memmap(path, np.float64, "r+", 0, (count,))
        self.visible: Times = np.memmap(path, np.float64, "r+", 8 * count, (count,))
        self.seen: Numbers = np.memmap(path, np.int64, "r+", 16 * count, (count,))
        self._total: Numbers = np.memmap(path, np.int64, "r+", 24 * count, (1,))

    @property
    def delivered(self) -> int:
        """How many different messages have been seen."""
        return int(self._total[0])

    def see(self, numbers: Numbers, now: float) -> None:
        """Write down that these messages are visible."""
        unique, times = np.unique(numbers, return_counts=True)
        first = unique[self.seen[unique] == 0]
        self.visible[first] = now
        self.seen[unique] += times
        self._total[0] += len(first)

    def waits(self, begin: float = 0.0, end: float = float("inf")) -> Times:
        """Return the seconds from `since` to `visible` of what was ended in a time, sorted.

        Call it once all is visible: what waited longest is seen last.
        """
        both = (self.since >= max(begin, 1.0)) & (self.since < end) & (self.visible > 0)
        return np.sort(self.visible[both] - self.since[both])

    def ended(self, begin: float, end: float) -> int:
        """Return how many were ended in a time."""
        return int(np.count_nonzero((self.since >= begin) & (self.since < end)))

    def became_visible(self, begin: float, end: float) -> int:
        """Return how many became visible in a time."""
        return int(np.count_nonzero((self.visible >= begin) & (self.visible < end)))

    def doubled(self) -> int:
        """Return how many messages came more often than once."""
        return int(np.count_nonzero(self.seen > 1))
