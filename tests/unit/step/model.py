"""The resolver's step as plainly as it can be said: one half, one element, one due row at a time.

This is the specification of `resolver.step` that can be run. It keeps everything in ordinary
objects, decodes nothing (a history says what each record means) and shares no code with the step
beyond the record types of `resolver.protocol`. Where the two differ, one of them is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from resolver.protocol import (
    DiscardReason,
    Half,
    HalfAt,
    Outcome,
    QuarantineReason,
    Source,
    TransactionStatus,
    record_bytes,
)

from .vocabulary import (
    FENCE,
    RANGE,
    Asked,
    Element,
    End,
    Ends,
    HalfRead,
    OpRead,
    Plan,
    Rules,
    Verdict,
)


@dataclass
class Pending:
    """A half that has not ended."""

    at: HalfAt
    own_immunity: bool
    immunity_ms: int
    deadline_ms: int
    checks: int = 0
    answered: int = 0
    outstanding: bool = False  # a check was sent and not answered yet
    streak: int = 0  # checks in a row before the last one that stayed unanswered


class Settled(NamedTuple):
    outcome: Outcome
    settled_at_ms: int


class Model:
    """One queue."""

    def __init__(self, queue: int, range_size: int = RANGE) -> None:
        self.queue = queue
        self.range_size = range_size
        self.now_ms = 0
        self.next_half = 0
        self.watermark_ms: int | None = None
        self.pending: dict[int, Pending] = {}
        self.settled: dict[int, Settled] = {}
        self.unread: list[OpRead] = []  # ops that were left for the next batch
        self.next_op = 0
        self.behind = 0  # where ops were left: how many offsets the next batch reads

    def settle(self, outcomes: dict[int, Outcome], now_ms: int) -> None:
        """Take transactions as ended before their halves are read: the start of a rebuild.

        What could not be delivered had been committed.
        """
        self.now_ms = max(self.now_ms, now_ms)
        for offset, outcome in outcomes.items():
            committed = outcome is Outcome.UNDELIVERABLE
            self.settled[offset] = Settled(Outcome.COMMIT if committed else outcome, self.now_ms)

    def batch(
        self, halves: list[HalfRead], ops: list[OpRead], now_ms: int, plan: Plan, rules: Rules
    ) -> Verdict:
        """Read a batch. The order of the rows that it is given does not matter."""
        self.rules = rules
        self.verdict = Verdict()
        self.now_ms = max(self.now_ms, now_ms)
        self.stored = {offset: _size(row.at) for offset, row in self.pending.items()}
        for half in sorted(halves, key=lambda half: half.offset):
            self._half(half)
        self.next_half = plan.halves_end
        self._ops(sorted(ops, key=lambda op: op.offset), plan)
        more_is_due = self._due_rows()
        self._forget()
        self.verdict.wake_at_ms = self._wake_at(more_is_due or bool(self.behind))
        self.verdict.watermark_ms = self.watermark_ms
        self.verdict.pending = len(self.pending)
        return self.verdict

    # Halves

    def _half(self, read: HalfRead) -> None:
        rules = self.rules
        source = f"{rules.topic_prefix}half:{self.queue}:{read.offset}"
        if read.half is None:
            self.verdict.refused.append((source, None, QuarantineReason.MALFORMED_HALF))
            return
        if rules.reject_transaction_message or not may_publish(read.half, rules):
            self.verdict.refused.append((source, None, QuarantineReason.NO_PERMISSION))
            return
        if read.offset in self.settled:  # before a rebuild
            return
        immunity_ms = immunity_of(read.half, rules)
        self.pending[read.offset] = Pending(
            at=HalfAt(self.queue, read.offset, read.stored_at_ms, read.half, read.headers),
            own_immunity=read.half.immunity_seconds is not None,
            immunity_ms=immunity_ms,
            deadline_ms=read.stored_at_ms + immunity_ms,
        )

    # Ops

    def _ops(self, new: list[OpRead], plan: Plan) -> None:
        """Apply ops in their order, up to one whose halves are to come, or that is too much."""
        begin, to = plan.ops_start, plan.ops_end
        if self.behind:
            begin, to = self.next_op, min(to, self.next_op + self.behind)
        known = self.unread + new
        ops = [op for op in known if op.offset < to]
        decoded = self._as_many_as_may_be_refused(ops)
        with_halves = list(takewhile(lambda op: not is_ahead(op, plan), decoded))
        applied = self._applied(with_halves)
        self.unread = known[applied:]
        self.next_op = ops[applied].offset if applied < len(ops) else to
        least = to - begin if len(with_halves) < len(decoded) else 1
        left = self.next_op < plan.ops_end
        size = sum(op.size for op in ops)
        fitting = self.rules.max_output_bytes * max(1, len(ops)) // max(1, size)
        most = min(self.rules.max_ops, fitting)
        more = max(least, 4 * (self.next_op - begin))
        self.behind = max(1, min(more, most)) if left else 0

    def _as_many_as_may_be_refused(self, ops: list[OpRead]) -> list[OpRead]:
        left = max(1, self.rules.max_output_bytes // 512)
        taken = []
        for op in ops:
            if left <= 0:
                break
            taken.append(op)
            left -= 1 if op.says is None else len(_elements(op))
        return taken

    def _applied(self, ops: list[OpRead]) -> int:
        """Apply ops, as many as may release so much; return how many."""
        budget = self.rules.max_output_bytes
        released = 0
        for place, op in enumerate(ops):
            size = sum(self.stored.get(element[0], 0) for element in _elements(op) if element)
            if released and released + size > budget:
                return place
            released += size
            self._op(op)
        return len(ops)

    def _op(self, op: OpRead) -> None:
        self.watermark_ms = max(self.watermark_ms or 0, op.stored_at_ms)
        if op.says == FENCE:
            return
        if not isinstance(op.says, Ends):
            source = f"{self.rules.topic_prefix}op:{self.queue}:{op.offset}"
            self.verdict.refused.append((source, None, QuarantineReason.MALFORMED_OP))
            return
        for position, element in enumerate(op.says.elements):
            if element is None:
                self._refuse(op.offset, position, QuarantineReason.MALFORMED_OP)
            else:
                self._element(Element(op.offset, position, op.stored_at_ms, *element, op.says))

    def _element(self, element: Element) -> None:
        offset, state = element.half_offset, element.says.state
        if offset in self.pending:
            self._element_of_pending(element, self.pending[offset])
        elif offset in self.settled and offset < self.next_half:
            if state is TransactionStatus.UNKNOWN:
                return
            if _outcome(state) is self.settled[offset].outcome:
                self.verdict.duplicates += 1
            else:
                self._refuse_element(element, QuarantineReason.CONFLICTING_END)
        else:
            self._refuse_element(element, QuarantineReason.UNKNOWN_HALF)

    def _element_of_pending(self, element: Element, row: Pending) -> None:
        says = element.says
        if says.group != row.at.half.group:
            self._refuse_element(element, QuarantineReason.GROUP_MISMATCH)
            return
        if element.transaction_id != row.at.half.transaction_id:
            self._refuse_element(element, QuarantineReason.TRANSACTION_MISMATCH)
            return
        if says.from_check and row.outstanding:
            row.answered += 1
            row.outstanding = False
            row.streak = 0
        if says.state is TransactionStatus.UNKNOWN:
            return
        late_after_ms = max(row.immunity_ms, self.rules.transaction_timeout_ms)
        if (
            row.own_immunity
            and not says.from_check
            and says.actor is None
            and element.stored_at_ms - row.at.stored_at_ms > late_after_ms
        ):
            self._refuse_element(element, QuarantineReason.LATE_END)
            return
        if says.actor is not None:
            source = Source.OPERATOR
        elif says.from_check:
            source = Source.CHECK
        else:
            source = Source.END
        self._settle(row, _outcome(says.state), source, element)

    def _settle(
        self,
        row: Pending,
        outcome: Outcome,
        source: Source,
        element: Element | None,
        reason: DiscardReason | None = None,
    ) -> None:
        del self.pending[row.at.offset]
        self.settled[row.at.offset] = Settled(outcome, self.now_ms)
        self.verdict.ended.append(
            End(
                at=row.at,
                outcome=outcome,
                source=source,
                op_offset=element.op_offset if element else None,
                ended_at_ms=element.stored_at_ms if element else None,
                checks=row.checks,
                answered=row.answered,
                decided_at_ms=self.now_ms,
                reason=reason,
            )
        )

    # Checks and discards

    def _due_rows(self) -> bool:
        """Check or discard what is due; True if the limit left some of it for the next batch."""
        if self.watermark_ms is None:
            return False
        due = [row for row in self.pending.values() if row.deadline_ms < self.watermark_ms]
        due.sort(key=_age)
        taken: dict[str, int] = {}  # rows seen of each group, oldest first
        ranked = []
        for row in due:
            group = row.at.half.group
            ranked.append((taken.get(group, 0), row))
            taken[group] = taken.get(group, 0) + 1
        ranked.sort(key=lambda pair: (pair[0], *_age(pair[1])))
        chosen: list[Pending] = []
        size = 0
        for _, row in ranked[: self.rules.max_checks]:
            size += self.stored.get(row.at.offset, 0)
            if chosen and size > self.rules.max_output_bytes:
                break
            chosen.append(row)
        for row in sorted(chosen, key=_age):
            self._due_row(row, self.watermark_ms)
        return len(due) > len(chosen)

    def _due_row(self, row: Pending, watermark_ms: int) -> None:
        rules = self.rules
        counted = row.checks if rules.count_unanswered_checks else row.answered
        if row.checks == 0:
            self._check(row, watermark_ms)
        elif counted >= rules.transaction_check_max:
            self._settle(row, Outcome.DISCARD, Source.LIMIT, None, DiscardReason.CHECK_MAX)
        elif self.now_ms - row.at.stored_at_ms > rules.file_reserved_ms:
            self._settle(row, Outcome.DISCARD, Source.LIMIT, None, DiscardReason.EXPIRED)
        else:
            self._check(row, watermark_ms)

    def _check(self, row: Pending, watermark_ms: int) -> None:
        rules = self.rules
        if row.outstanding:
            row.streak += 1
        row.checks += 1
        row.outstanding = True
        wait_ms = rules.transaction_check_interval_ms
        if not rules.count_unanswered_checks:
            longest_ms = max(wait_ms, rules.check_backoff_max_ms)
            for _ in range(row.streak):
                wait_ms = min(wait_ms * 2, longest_ms)
        row.deadline_ms = max(watermark_ms, self.now_ms) + wait_ms
        self.verdict.checks.append(Asked(row.at, row.checks))

    # Memory and time

    def _forget(self) -> None:
        """From the oldest range on, up to the first that is still needed or being filled."""
        size, filling = self.range_size, self.next_half // self.range_size
        for number in sorted({offset // size for offset in (*self.pending, *self.settled)}):
            ends = {o: end for o, end in self.settled.items() if o // size == number}
            newest_ms = max((end.settled_at_ms for end in ends.values()), default=0)
            recent = self.now_ms - newest_ms <= self.rules.file_reserved_ms
            if number >= filling or recent or any(o // size == number for o in self.pending):
                return
            for offset in ends:
                del self.settled[offset]

    def _wake_at(self, more_is_due: bool) -> int | None:
        """When the queue must be looked at again though nothing arrives."""
        if more_is_due:
            return 0
        return min((row.deadline_ms for row in self.pending.values()), default=None)

    # Refusals

    def _refuse_element(self, element: Element, reason: QuarantineReason) -> None:
        self._refuse(element.op_offset, element.position, reason)

    def _refuse(self, op_offset: int, position: int, reason: QuarantineReason) -> None:
        source = f"{self.rules.topic_prefix}op:{self.queue}:{op_offset}"
        self.verdict.refused.append((source, position, reason))


def may_publish(half: Half, rules: Rules) -> bool:
    """Whether the half's group may publish to its topic: a `*` at the end stands for anything."""
    patterns = rules.group_topics.get(half.group) if half.group in rules.group_topics else None
    if patterns is None and "*" in rules.group_topics:
        patterns = rules.group_topics["*"]
    return patterns is None or any(
        re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), half.topic) for pattern in patterns
    )


def immunity_of(half: Half, rules: Rules) -> int:
    """Return how long after it was stored a half is checked first."""
    if half.immunity_seconds is None:
        return rules.transaction_timeout_ms
    return min(half.immunity_seconds * 1000, rules.file_reserved_ms)


def _elements(op: OpRead) -> tuple[tuple[int, str] | None, ...]:
    return op.says.elements if isinstance(op.says, Ends) else ()


def is_ahead(op: OpRead, plan: Plan) -> bool:
    """Whether a half of the op is there and not read; what is not there never was."""
    offsets = [element[0] for element in _elements(op) if element]
    return any(plan.halves_end <= offset < plan.halves_known for offset in offsets)


def _size(at: HalfAt) -> int:
    return record_bytes(at.half.key, at.half.body, at.all_headers)


def _age(row: Pending) -> tuple[int, int]:
    return row.deadline_ms, row.at.offset


def _outcome(state: TransactionStatus) -> Outcome:
    return {
        TransactionStatus.COMMIT_MESSAGE: Outcome.COMMIT,
        TransactionStatus.ROLLBACK_MESSAGE: Outcome.ROLLBACK,
    }[state]
