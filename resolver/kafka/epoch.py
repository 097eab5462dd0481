"""Limits the use of a transactional producer's epoch: until a request may have a copy.

librdkafka lacks KIP-890: all transactions of a producer share an epoch. Where it loses a
connection, it sends the request again by itself and reports nothing. The first copy may still reach
Kafka later, in the middle of the next transaction. It would be valid there and commit half of a
batch. Kafka refuses the copy only under a higher epoch, which `init_transactions` of a new producer
brings.

The time of a call reveals a copy, as librdkafka waits before it sends anything again.
docs/design.md, "Why no late request tears a batch", has the whole argument.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Time in ms before EndTxn and AddOffsetsToTxn are sent again, less 20 % of jitter: 500 or more.
#: TxnOffsetCommit is sent again after 500 ms, whatever is set.
RETRY_OPTIONS = {"retry.backoff.ms": 625, "retry.backoff.max.ms": 625}
#: Time in seconds. A shorter call has sent each of its requests once. The margin below 500 ms is
#: for two clocks that differ by a tick: without it they could hide a copy.
_LIMIT_SECONDS = 0.4


class Epoch:
    """One epoch of a producer; once `is_spent`, no further transaction may begin in it."""

    def __init__(self) -> None:
        self.is_spent = False

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time a `send_offsets_to_transaction` or a `commit_transaction`."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.is_spent = self.is_spent or time.monotonic() - begun >= _LIMIT_SECONDS
