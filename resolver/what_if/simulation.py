"""Replays a queue's history through the step, by a resolver that is never late.

A batch ends where the next half is due: then a fence is read, and checks go out. It ends behind an
answer too: the group may be back, and then its halves are due in the next batch. And it ends behind
a revocation: halves may be due from there on. So each decision is the one of a resolver that read
each record as it was stored.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from ..protocol import (
    Names,
    Op,
    QuarantineReason,
    Record,
    StoredRecord,
    fence_record,
    revoked_record,
)
from ..resolve.step import Plan, QueueDecisions, StepSettings, ops_to_read, step
from .history import Answer, CheckId, LedgerOp, QueueHistory, Revoked

#: Most records of one batch, beside those of the same moment.
_MOST_RECORDS = 5_000
#: Order of events at the same moment.
_HALF, _OP, _ANSWER, _REVOKED = 0, 1, 2, 3
#: Secret of revocations and fences: the ledger does not have the resolver's own.
_SECRET = "replay"  # noqa: S105


class Fate(NamedTuple):
    """What becomes of a transaction in a replay."""

    outcome: str
    source: str | None
    reason: str | None
    checks: int
    answered: int


@dataclass
class Replayed:
    """What comes out of a replay; a half without a fate pends at its end.

    `unknown` counts the checks that were never sent in the history: how they would have been
    answered is not known.
    """

    fates: dict[int, Fate] = field(default_factory=dict)
    checks: Counter[int] = field(default_factory=Counter)
    late: int = 0
    unknown: int = 0


class Simulation:
    """A queue that is replayed once, until a time."""

    def __init__(
        self, queue: int, history: QueueHistory, settings: StepSettings, end_ms: int
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._end_ms = end_ms
        self._sent, self._answers = history.sent, history.answers
        self._state: dict[str, bytes] = {}
        self._plan = Plan(0, 0, 0)
        self._ops: list[StoredRecord] = []
        self._wake_ms: int | None = None
        #: Fast ids that the last batch wanted to be revoked.
        self._wanted: frozenset[str] = frozenset()
        #: When each half is due for its first check.
        self._due_ms: dict[int, int] = {}
        self._now_ms = 0
        self._result = Replayed()
        #: Time, kind, number of the event, the offset of a half, the record.
        self._events: list[tuple[int, int, int, int, StoredRecord]] = []
        self._event_count = 0
        self._begin(history)

    def run(self) -> Replayed:
        """Replay all; return what comes out."""
        while (due_ms := self._next_ms()) is not None and due_ms <= self._end_ms:
            self._read(*self._batch())
        return self._result

    def _begin(self, history: QueueHistory) -> None:
        """Plan halves, ops and revocations by their offsets, and each op behind its halves."""
        stored_at: dict[int, int] = {}
        latest = 0
        for offset, stored_ms, half in history.halves:
            latest = max(latest, stored_ms)
            stored_at[offset] = latest
            own = min((half.immunity_seconds or 0) * 1_000, self._settings.file_reserved_ms)
            self._due_ms[offset] = stored_ms + (own or self._settings.transaction_timeout_ms)
            record = half.to_record(self._names.half)
            self._plan_event(latest, _HALF, _stored(offset, stored_ms, record), offset)
        latest = 0
        records: list[LedgerOp | Revoked] = [*history.ops, *history.revoked]
        for op_record in sorted(records, key=lambda op_record: op_record.offset):
            latest = max(latest, op_record.stored_ms)
            if isinstance(op_record, Revoked):
                self._plan_revocation(latest, op_record.fast_id)
            else:
                halves = [stored_at[element.offset] for element in op_record.op.elements]
                latest = max([latest, *halves])
                self._plan_op(latest, op_record.stored_ms, op_record.op)

    def _plan_op(self, at_ms: int, stored_ms: int, op: Op) -> None:
        record = op.to_record(self._names.op, self._queue)
        self._plan_event(at_ms, _ANSWER if op.from_check else _OP, _stored(-1, stored_ms, record))

    def _plan_revocation(self, at_ms: int, fast_id: str) -> None:
        record = revoked_record(self._names.op, self._queue, fast_id, _SECRET)
        self._plan_event(at_ms, _REVOKED, _stored(-1, at_ms, record))

    def _plan_event(self, at_ms: int, kind: int, record: StoredRecord, offset: int = -1) -> None:
        heapq.heappush(self._events, (at_ms, kind, self._event_count, offset, record))
        self._event_count += 1

    def _next_ms(self) -> int | None:
        """Return when something happens next; None if nothing does any more."""
        times = [self._events[0][0]] if self._events else []
        if self._wake_ms is not None:
            times.append(self._fence_ms(self._wake_ms))
        return min(times, default=None)

    def _fence_ms(self, deadline_ms: int) -> int:
        """Return when a fence proves that a deadline has passed."""
        return max(self._now_ms, deadline_ms + 1)

    def _batch(self) -> tuple[list[StoredRecord], list[StoredRecord]]:
        """Take the events up to the next deadline; a fence, if it is reached, is the last op."""
        halves: list[StoredRecord] = []
        ops: list[StoredRecord] = []
        until = self._end_ms if self._wake_ms is None else self._fence_ms(self._wake_ms)
        until = min(until, self._end_ms)
        while self._events and self._events[0][0] <= until:
            at_ms, kind, _, offset, record = self._events[0]
            if len(halves) + len(ops) >= _MOST_RECORDS and at_ms > self._now_ms:
                return halves, ops
            heapq.heappop(self._events)
            self._now_ms = max(self._now_ms, at_ms)
            if kind == _HALF:
                halves.append(record._replace(offset=offset))
                until = min(until, self._fence_ms(self._due_ms[offset]))
            else:
                ops.append(record._replace(offset=self._plan.ops_end + len(ops)))
            if kind in (_ANSWER, _REVOKED):
                until = at_ms
        if self._wake_ms is not None or halves:
            self._now_ms = max(self._now_ms, until)
            fence = fence_record(self._names.op, self._queue)
            ops.append(_stored(self._plan.ops_end + len(ops), self._now_ms, fence))
        return halves, ops

    def _read(self, halves: list[StoredRecord], ops: list[StoredRecord]) -> None:
        """Let the step read a batch, and take its decisions."""
        halves_end = max(self._plan.halves_end, *(half.offset + 1 for half in halves), 0)
        ops_start = self._plan.ops_end
        self._plan = Plan(halves_end, ops_start, ops_start + len(ops))
        self._ops += ops
        begin, to = ops_to_read(self._state, self._queue, self._plan)
        read = [op for op in self._ops if begin <= op.offset < to]
        changes, decisions = step(
            self._state, self._queue, self._plan, halves, read, self._now_ms, self._settings,
            _SECRET,
        )  # fmt: skip
        for key, value in changes.items():
            if value is None:
                self._state.pop(key, None)
            else:
                self._state[key] = value
        self._ops = [op for op in self._ops if op.offset >= decisions.next_op]
        self._wake_ms = decisions.wake_at_ms
        self._take(decisions)

    def _take(self, decisions: QueueDecisions) -> None:
        result = self._result
        for end in decisions.ended:
            result.fates[end.stored_half.offset] = Fate(
                end.outcome.value,
                end.source.value,
                end.reason.value if end.reason else None,
                end.checks,
                end.answered,
            )
        for check in decisions.checks:
            result.checks[check.stored_half.offset] += 1
            check_id = CheckId(check.stored_half.offset, check.checks)
            result.unknown += check_id not in self._sent
            for answer in self._answers.get(check_id, []):
                self._answer(answer)
        for fast_id in decisions.revoke:
            if fast_id not in self._wanted:
                self._plan_revocation(self._now_ms, fast_id)
        self._wanted = frozenset(decisions.revoke)
        result.late += sum(
            refused.reason is QuarantineReason.LATE_END for refused in decisions.refused
        )

    def _answer(self, answer: Answer) -> None:
        at_ms = self._now_ms + answer.after_ms
        self._plan_op(at_ms, at_ms, answer.op)


def _stored(offset: int, stored_ms: int, record: Record) -> StoredRecord:
    return StoredRecord(offset, stored_ms, record.key, record.value, record.headers)
