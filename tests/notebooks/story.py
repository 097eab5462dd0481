"""Two minutes of an application, made up: the records that it and the resolver would write."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from resolver.protocol import (
    DiscardReason,
    Element,
    Half,
    Names,
    Op,
    Outcome,
    QuarantineReason,
    Record,
    Refused,
    Resolution,
    Source,
    StoredHalf,
    TransactionStatus,
    check_record,
    discarded_record,
)

QUEUES = 2
_STATES = {
    Outcome.COMMIT: TransactionStatus.COMMIT_MESSAGE,
    Outcome.ROLLBACK: TransactionStatus.ROLLBACK_MESSAGE,
}


@dataclass
class Story:
    """Transactions one after another; `records` carry the times at which Kafka stores them."""

    names: Names
    start_ms: int
    random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311
    records: list[Record] = field(default_factory=list)
    next_offset: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    outcomes: defaultdict[Outcome, int] = field(default_factory=lambda: defaultdict(int))
    conflicts: list[tuple[StoredHalf, Record]] = field(default_factory=list)

    def tell(self, transactions: int, milliseconds: int) -> list[Record]:
        """Return all records in the order of their times."""
        for number in range(transactions):
            at = self._half(number, self.start_ms + number * milliseconds // transactions)
            kind = self.random.choices(
                ["commit", "rollback", "checked", "silent", "pending"], [70, 15, 10, 3, 2]
            )[0]
            getattr(self, f"_{kind}")(at)
        for number in range(12):
            self._malformed(self.start_ms + milliseconds + number * 500)
        for at, op in self.conflicts:
            self._refused(at, op, QuarantineReason.CONFLICTING_END)
        return self._by_time()

    def _by_time(self) -> list[Record]:
        return sorted(self.records, key=lambda record: record.timestamp_ms)

    def _half(self, number: int, stored_at: int) -> StoredHalf:
        queue = number % QUEUES
        offset = self.next_offset[queue]
        self.next_offset[queue] += 1
        half = Half(f"order-{number:05}", "orders", "orders-out", stored_at - 3, b"k", b"b", [])
        record = half.to_record(self.names.half, queue)
        self._at(stored_at, record)
        return StoredHalf(queue, offset, stored_at, half, record.headers)

    def _commit(self, at: StoredHalf) -> None:
        ended_at = self._op(at, at.stored_at_ms + self.random.randint(5, 400), Outcome.COMMIT)
        self._outcome(at, Outcome.COMMIT, Source.END, ended_at)
        if self.random.random() < 0.02:
            self._op(at, ended_at + 900, Outcome.ROLLBACK)
            self.conflicts.append((at, self.records[-1]))

    def _rollback(self, at: StoredHalf) -> None:
        ended_at = self._op(at, at.stored_at_ms + self.random.randint(5, 400), Outcome.ROLLBACK)
        self._outcome(at, Outcome.ROLLBACK, Source.END, ended_at)

    def _checked(self, at: StoredHalf) -> None:
        when, checks = at.stored_at_ms, self.random.randint(1, 4)
        for times in range(1, checks + 1):
            when += 3000 + self.random.randint(0, 300)
            self._at(when, check_record(at, times, self.names))
            if times < checks:
                self._op(at, when + 80, None, from_check=True)
        outcome = self.random.choice([Outcome.COMMIT, Outcome.ROLLBACK])
        ended_at = self._op(at, when + self.random.randint(20, 200), outcome, from_check=True)
        self._outcome(at, outcome, Source.CHECK, ended_at, checks)

    def _silent(self, at: StoredHalf) -> None:
        when = at.stored_at_ms
        for times in range(1, 6):
            when += 3000
            self._at(when, check_record(at, times, self.names))
            self._op(at, when + 80, None, from_check=True)
        gone = discarded_record(at, 5, DiscardReason.CHECK_MAX, None, self.names)
        self._at(when + 3100, gone)
        self._outcome(at, Outcome.DISCARD, Source.LIMIT, None, 5, when + 3100)

    def _pending(self, at: StoredHalf) -> None:
        self._at(at.stored_at_ms + 3000, check_record(at, 1, self.names))

    def _malformed(self, stored_at: int) -> None:
        queue = self.random.randrange(QUEUES)
        record = Record(self.names.half, None, b"?", [("TRAN_MSG", b"yes")], queue)
        self._at(stored_at, record)
        refused = Refused(
            f"{self.names.half}:{queue}:{self.next_offset[queue]}",
            None,
            QuarantineReason.MALFORMED_HALF,
            "header TRAN_MSG is b'yes'; it must be 'true'",
            None,
            b"?",
            record.headers,
        )
        self.next_offset[queue] += 1
        self._at(stored_at + 500, refused.to_record(self.names, 4096))

    def _op(
        self, at: StoredHalf, stored_at: int, outcome: Outcome | None, from_check: bool = False
    ) -> int:
        state = TransactionStatus.UNKNOWN if outcome is None else _STATES[outcome]
        element = Element(0, at.offset, at.half.transaction_id)
        op = Op(state, "orders", (element,), from_check)
        self._at(stored_at, op.to_record(self.names.op, at.queue))
        return stored_at

    def _refused(self, at: StoredHalf, op: Record, reason: QuarantineReason) -> None:
        place = (op.topic, op.partition)
        ops = [each for each in self._by_time() if (each.topic, each.partition) == place]
        source = f"{op.topic}:{op.partition}:{ops.index(op)}"
        refused = Refused(source, 0, reason, "it was committed before", None, op.value, [])
        self._at(op.timestamp_ms + 300, refused.to_record(self.names, 4096))

    def _outcome(
        self,
        at: StoredHalf,
        outcome: Outcome,
        source: Source,
        ended_at: int | None,
        checks: int = 0,
        decided_at: int = 0,
    ) -> None:
        slow = self.random.lognormvariate(6, 0.5)
        decided_at = decided_at or (ended_at or 0) + int(slow)
        half = at.half
        resolution = Resolution(
            half.transaction_id,
            at.queue,
            at.offset,
            outcome,
            source,
            half.group,
            half.topic,
            None if ended_at is None else 1,
            checks,
            checks,
            half.born_at_ms,
            at.stored_at_ms,
            ended_at,
            decided_at,
            1,
            "query",
        )
        self._at(decided_at + 50, resolution.to_record(self.names.resolution))
        self.outcomes[outcome] += 1

    def _at(self, timestamp_ms: int, record: Record) -> None:
        self.records.append(record._replace(timestamp_ms=timestamp_ms))


def topics(names: Names) -> Iterator[tuple[str, int]]:
    """Yield the topics of the story and their partitions."""
    yield from ((names.half, QUEUES), (names.op, QUEUES))
    for name in (names.check("orders"), names.resolution, names.discarded, names.quarantine):
        yield name, 1
