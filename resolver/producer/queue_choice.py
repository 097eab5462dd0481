"""Which queue a half goes to."""

from __future__ import annotations

import itertools
import random

from ..protocol.partitioner import partition_of

#: Number of halves without a key in a row that go to one queue: one op can end them together.
_STICKY = 32


class QueueChoice:
    """Chooses the queue of a half.

    Halves of one key go to one queue, since only the ends of one queue keep their order. Halves
    without a key go to each queue in turn, some in a row. With `one_queue` all go to one queue,
    chosen once by chance: a Kafka transaction costs more with each partition that it writes to.
    """

    def __init__(self, queues: int, one_queue: bool = False) -> None:
        self._queues = queues
        first = random.randrange(queues) * _STICKY  # noqa: S311
        self._turns = itertools.repeat(first) if one_queue else itertools.count(first)

    def queue_of(self, key: bytes | None) -> int:
        if key is not None:
            return partition_of(key, self._queues)
        return next(self._turns) // _STICKY % self._queues
