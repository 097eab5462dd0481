"""The order of messages: those of one queue stand in each partition in the order of their ops."""

from __future__ import annotations

from collections import defaultdict, deque

#: A queue, and a partition of a real topic that its messages go to.
Lane = tuple[str, str, int]


class Order:
    """Takes messages as a partition has them, and commits; either may come first."""

    def __init__(self) -> None:
        self._halves: dict[Lane, deque[str]] = defaultdict(deque)
        self._lane_of: dict[str, Lane] = {}
        self._op_of: dict[str, int] = {}
        #: The last op of those that a lane has messages of.
        self._last: dict[Lane, int] = {}

    def message(self, half: str, topic: str, partition: int) -> list[str]:
        """Take the next message of a partition; return the halves that are out of order."""
        lane = self._lane_of[half] = (_split(half)[0], topic, partition)
        self._halves[lane].append(half)
        return self._judge(lane)

    def commit(self, half: str, op_offset: int) -> list[str]:
        """Take a commit's op; return the halves that are out of order."""
        self._op_of[half] = op_offset
        return self._judge(self._lane_of[half]) if half in self._lane_of else []

    def _judge(self, lane: Lane) -> list[str]:
        """Judge the messages of a partition up to the first whose op is not known yet."""
        halves, found = self._halves[lane], []
        while halves and halves[0] in self._op_of:
            half = halves.popleft()
            del self._lane_of[half]
            op = self._op_of.pop(half)
            if op < self._last.get(lane, 0):
                found.append(half)
            self._last[lane] = max(op, self._last.get(lane, 0))
        return found


def _split(half: str) -> tuple[str, str]:
    queue, _, offset = half.rpartition(":")
    return queue, offset
