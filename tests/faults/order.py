"""The order of messages in a partition, by a number that each of them has.

The messages of one queue stand in the order of their ops. Those of one ordering key stand in the
order in which their producer committed them.
"""

from __future__ import annotations

from collections import defaultdict, deque

from .partitioner import java_partition

#: A queue or an ordering key, and a partition of a real topic that its messages go to.
Lane = tuple[str | bytes, str, int]


class Order:
    """Takes messages as a partition has them, and their numbers; either may come first."""

    def __init__(self) -> None:
        self._halves: dict[Lane, deque[str]] = defaultdict(deque)
        self._lane_of: dict[str, Lane] = {}
        self._number_of: dict[str, int | None] = {}
        #: The greatest number of a lane's messages.
        self._last: dict[Lane, int] = {}

    def message(self, half: str, lane: Lane) -> list[str]:
        """Take the next message of a lane; return the halves that are out of order."""
        self._lane_of[half] = lane
        self._halves[lane].append(half)
        return self._judge(lane)

    def number(self, half: str, number: int | None) -> list[str]:
        """Take a message's number; return the halves that are out of order.

        None: the message may stand anywhere.
        """
        self._number_of[half] = number
        return self._judge(self._lane_of[half]) if half in self._lane_of else []

    def _judge(self, lane: Lane) -> list[str]:
        """Judge the messages of a lane up to the first whose number is not known yet."""
        halves, out_of_order = self._halves[lane], []
        while halves and halves[0] in self._number_of:
            half = halves.popleft()
            del self._lane_of[half]
            number = self._number_of.pop(half)
            if number is None:
                continue
            if number < self._last.get(lane, 0):
                out_of_order.append(half)
            self._last[lane] = max(number, self._last.get(lane, 0))
        return out_of_order


class KeyOrder:
    """The order of ordering keys: messages stand as their producer committed them.

    An end by a check or by an operator may stand anywhere.
    """

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._order = Order()
        #: Ordering key and number of each commit; the numbers of a key follow its commits.
        self._committed: dict[str, tuple[bytes, int]] = {}
        #: Halves whose message was found.
        self._with_message: set[str] = set()
        #: Messages that were judged, or will be once those before them are.
        self.judged = 0

    def committed(self, name: str, ordering: bytes, number: int) -> None:
        """Take a commit that the producer is told."""
        self._committed[name] = (ordering, number)

    def message(self, half: str, name: str, topic: str, partition: int) -> list[str]:
        """Take the next message of a partition; return what is wrong."""
        if name not in self._committed:
            return []
        ordering, _ = self._committed[name]
        self._with_message.add(half)
        expected, wrong = java_partition(ordering, self._queues), []
        if half.partition(":")[0] != str(expected):
            wrong.append(f"{half}: its ordering key belongs in queue {expected}")
        return wrong + _described(self._order.message(half, (ordering, topic, partition)))

    def ended(self, half: str, name: str, by_application: bool) -> list[str]:
        """Take the end of a half, whose message was found if there is one; return what is wrong."""
        _, number = self._committed.pop(name, (b"", 0))
        if half not in self._with_message:
            return []
        self._with_message.discard(half)
        self.judged += by_application
        return _described(self._order.number(half, number if by_application else None))


def _described(halves: list[str]) -> list[str]:
    return [f"{half}: behind a message with a later commit of its key" for half in halves]
