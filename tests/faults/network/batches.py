"""Batches as resolve decides them, without Spark: commits of halves that only the sent log has."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import suppress
from functools import cached_property

from resolver.protocol import Half, Names, Outcome, Source, StoredHalf
from resolver.protocol.record import Headers
from resolver.resolve.delivery.packed import BatchName, pack
from resolver.resolve.step import Ended, QueueDecisions

from ..load import GROUP, NAME, PARTITIONS, TOPICS, Fate
from ..sent_log import COMMIT, Sent, SentLog, digest

#: Commits of a batch: some for each partition of each topic, so that it takes many requests.
SIZE = 40
_QUEUE = 0
_MOST_BYTES = 1_000_000


class Batches:
    """Batch after batch, each the same whenever it is made again; the sent log knows of each."""

    def __init__(self, sent_log: SentLog, names: Names) -> None:
        self._sent_log = sent_log
        self._names = names
        self._last = -1

    @property
    def last(self) -> int:
        """The number of the last one that is there whole, -1 before the first."""
        while self.has(self._last + 1):
            self._last += 1
        return self._last

    def has(self, batch: int) -> bool:
        """Whether all of a batch is written down."""
        return bool(self._sent_log.decided_after((batch + 1) * SIZE - 1))

    def begin(self) -> None:
        """Write down what the next batch commits: the rest of it, if an interruption cut it."""
        for number in _halves(self.last + 1):
            self._begin(number, _half(number))

    def parts(self, batch: int) -> list[bytes]:
        """Return a batch's decisions, packed as the workers do it."""
        ended = [self._ended(half) for half in _halves(batch)]
        decisions = QueueDecisions(ended, [], [], 0, Counter(), None, None, None, 0, 0)
        return list(pack(decisions, self._names, BatchName(batch, "bare"), _MOST_BYTES))

    def _begin(self, number: int, half: Half) -> None:
        name = half.transaction_id
        content = digest(half.topic, half.key, half.body, half.headers)
        with suppress(sqlite3.IntegrityError):  # it was, before an interruption
            self._sent_log.sent(Sent(name, Fate.COMMIT.name, content, half.real_qid))
        with suppress(sqlite3.IntegrityError):
            self._sent_log.stored(name, f"{_QUEUE}:{number}")
        self._sent_log.decide(name, COMMIT)

    @cached_property
    def _begun_at_ms(self) -> int:
        """When the first half was stored: by a message's time Kafka keeps or deletes it."""
        return int(self._sent_log.stored_after(0)[0][1].known_at * 1_000)

    def _ended(self, number: int) -> Ended:
        half = _half(number)
        headers = half.to_record(self._names.half, _QUEUE).headers
        stored_half = StoredHalf(_QUEUE, number, self._begun_at_ms + number, half, headers)
        return Ended(
            stored_half,
            Outcome.COMMIT,
            Source.END,
            number,
            0,
            0,
            stored_half.stored_at_ms,
            stored_half.stored_at_ms,
        )


def _halves(batch: int) -> range:
    return range(batch * SIZE, (batch + 1) * SIZE)


def _half(number: int) -> Half:
    name = f"commit-{number}"
    headers: Headers = [(NAME, name.encode())]
    topic, partition = TOPICS[number % len(TOPICS)], number // len(TOPICS) % PARTITIONS
    return Half(name, GROUP, topic, 0, None, name.encode(), headers, partition)
