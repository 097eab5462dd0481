"""The resolver's step as plainly as it can be said: one half, one element, one due row at a time.

This is the specification of `resolver.resolve.step` that can be run. It keeps everything in
ordinary objects, decodes nothing (a history says what each record means) and shares no code with
the step beyond the record types of `resolver.protocol`. Where the two differ, one of them is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from resolver.protocol import (
    DiscardReason,
    Half,
    Outcome,
    QuarantineReason,
    Source,
    StoredHalf,
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
    Revoked,
    Rules,
    Verdict,
)

#: The deadline of a half that nobody is asked about.
HELD_MS = 2**63 - 1


@dataclass
class Pending:
    """A half that has not ended."""

    at: StoredHalf
    own_immunity: bool
    immunity_ms: int
    deadline_ms: int
    deliverable: bool  # by the rules of the batch that read it
    checks: int = 0
    answered: int = 0
    outstanding: bool = False  # a check was sent and not answered yet
    streak: int = 0  # checks in a row before the last one that stayed unanswered
    extra: bool = False  # the last check was sent because the group is back
    gave_up: bool = False  # the producer will not commit it fast
    waits: Element | None = None  # the end that waits until the fast id is revoked
    waits_since_before: bool = False  # an end of an earlier batch

    @property
    def fast_id(self) -> str | None:
        return self.at.half.fast_id


class Settled(NamedTuple):
    outcome: Outcome
    settled_at_ms: int
    is_fast: bool = False


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
        self.returned: set[str] = set()  # groups that are asked once more in the next batch
        self.waiting: set[str] = set()  # groups that came back while others are asked
        self.proved = 0  # the halves of all ops before this offset have been read
        self.revoked: dict[str, int] = {}  # when each fast id was revoked last
        self.wanted: list[str] = []  # fast ids to be revoked
        self.is_first = True
        self.is_rebuild = False
        self.lost_until_ms: int | None = None  # ops about halves stored until then may be lost

    def settle(self, outcomes: dict[int, Outcome], fast: Set[int], now_ms: int) -> None:
        """Take transactions as ended before their halves are read: the start of a rebuild.

        What could not be delivered had been committed.
        """
        self.is_rebuild = True
        self.now_ms = max(self.now_ms, now_ms)
        for offset, outcome in outcomes.items():
            committed = outcome is Outcome.UNDELIVERABLE
            kept = Outcome.COMMIT if committed else outcome
            self.settled[offset] = Settled(kept, self.now_ms, offset in fast)

    def batch(
        self, halves: list[HalfRead], ops: list[OpRead], now_ms: int, plan: Plan, rules: Rules
    ) -> Verdict:
        """Read a batch. The order of the rows that it is given does not matter."""
        self.rules = rules
        self.verdict = Verdict()
        self.places: dict[int, tuple[int, int]] = {}  # of the elements that ended halves
        self.now_ms = max(self.now_ms, now_ms)
        self.stored = {offset: _size(row.at) for offset, row in self.pending.items()}
        for row in self.pending.values():
            row.waits_since_before = row.waits is not None
        self._look_for_losses(ops, plan)
        for half in sorted(halves, key=lambda half: half.offset):
            self._half(half)
        self.next_half = plan.halves_end
        self._ops(sorted(ops, key=lambda op: op.offset), plan)
        more_is_due = self._due_rows()
        self._want()
        self._forget()
        if not self.returned:
            self.returned, self.waiting = self.waiting, set()
        if not self.pending:
            self.returned = set()
        at_once = more_is_due or self.left_waiting or bool(self.behind) or bool(self.returned)
        self.verdict.wake_at_ms = self._wake_at(at_once)
        self.verdict.watermark_ms = self.watermark_ms
        self.verdict.pending = len(self.pending)
        self.verdict.next_op = self.next_op
        self.verdict.revoke = self.wanted[:1000]
        return self.verdict

    # Halves

    def _half(self, read: HalfRead) -> None:
        rules = self.rules
        source = f"{rules.topic_prefix}half:{self.queue}:{read.offset}"
        if read.fence_ops is not None:
            self.proved = max(self.proved, read.fence_ops)
            return
        if read.half is None:
            self.verdict.refused.append((source, None, QuarantineReason.MALFORMED_HALF))
            return
        if read.offset in self.settled:  # before a rebuild
            return
        immunity_ms = immunity_of(read.half, rules)
        self.pending[read.offset] = Pending(
            at=StoredHalf(self.queue, read.offset, read.stored_at_ms, read.half, read.headers),
            own_immunity=read.half.immunity_seconds is not None,
            immunity_ms=immunity_ms,
            deadline_ms=read.stored_at_ms + immunity_ms,
            deliverable=not rules.reject_transaction_message and may_publish(read.half, rules),
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
        with_halves = list(takewhile(lambda op: not is_ahead(op, plan, self.proved), decoded))
        self.asked: list[tuple[int, int]] = []
        applied = self._applied(with_halves)
        self._end_what_waited()
        for offset, at_ms in self.asked:
            if offset in self.pending:
                self._asked_by_operator(self.pending[offset], at_ms)
        self.unread = known[applied:]
        self.next_op = ops[applied].offset if applied < len(ops) else to
        waits = len(with_halves) < len(decoded)
        self.verdict.fence_ops = plan.ops_end if waits else None
        least = to - begin if waits else 1
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
            size = 0 if _is_delivered(op) else self._stored_bytes(op)
            if isinstance(op.says, Ends) and released and released + size > budget:
                return place
            released += size
            self._op(op)
        return len(ops)

    def _stored_bytes(self, op: OpRead) -> int:
        """Return what an op would release of the messages of earlier batches."""
        return sum(self.stored.get(element[0], 0) for element in _elements(op) if element)

    def _op(self, op: OpRead) -> None:
        self.watermark_ms = max(self.watermark_ms or 0, op.stored_at_ms)
        if op.says == FENCE:
            return
        if isinstance(op.says, Revoked):
            self._revoke(op.says.fast_id)
            return
        if not isinstance(op.says, Ends):
            source = f"{self.rules.topic_prefix}op:{self.queue}:{op.offset}"
            self.verdict.refused.append((source, None, QuarantineReason.MALFORMED_OP))
            return
        if not op.says.elements:
            self.waiting.add(op.says.group)
        for position, element in enumerate(op.says.elements):
            if element is None:
                self._refuse(op.offset, position, QuarantineReason.MALFORMED_OP)
            else:
                self._element(Element(op.offset, position, op.stored_at_ms, *element, op.says))

    def _element(self, element: Element) -> None:
        offset = element.half_offset
        if offset in self.pending:
            self._element_of_pending(element, self.pending[offset])
        elif offset in self.settled and offset < self.next_half:
            self._element_after(element, self.settled[offset].outcome, self.settled[offset].is_fast)
        else:
            self._refuse_element(element, QuarantineReason.UNKNOWN_HALF)

    def _element_after(self, element: Element, outcome: Outcome, is_fast: bool) -> None:
        """Judge an element of a half that has ended, or of which an end waits."""
        if element.says.state is TransactionStatus.UNKNOWN:
            return
        if element.says.delivered and not is_fast:
            self._refuse_element(element, QuarantineReason.DELIVERED_TWICE)
        elif _outcome(element.says.state) is outcome:
            self.verdict.duplicates += 1
        else:
            self._refuse_element(element, QuarantineReason.CONFLICTING_END)

    def _element_of_pending(self, element: Element, row: Pending) -> None:
        says = element.says
        is_right = (says.group, element.transaction_id) == (
            row.at.half.group,
            row.at.half.transaction_id,
        )
        gives_up = is_right and not says.fast
        if row.waits is not None and (self._is_free(row) or not says.delivered):
            self._element_after(element, _outcome(row.waits.says.state), False)
            row.gave_up = row.gave_up or gives_up
            return
        row.gave_up = row.gave_up or gives_up
        if says.group != row.at.half.group:
            self._refuse_element(element, QuarantineReason.GROUP_MISMATCH)
            return
        if not is_right:
            self._refuse_element(element, QuarantineReason.TRANSACTION_MISMATCH)
            return
        if says.from_check and row.outstanding:
            self._count(row, says.state.value)
            if row.streak > 0:
                self.waiting.add(says.group)
            row.answered += 1
            row.outstanding = False
            row.streak, row.extra = 0, False
        if says.state is TransactionStatus.UNKNOWN:
            if says.actor is not None:
                self.asked.append((element.half_offset, element.stored_at_ms))
            return
        if says.delivered:
            self._delivered(element, row)
        elif self._is_late(element, row):
            self._refuse_element(element, QuarantineReason.LATE_END)
        elif self._is_lost(row) and says.actor is None:
            self._refuse_element(element, QuarantineReason.CONFLICTING_END)
        elif self._must_wait(says, row):
            row.waits = element
            row.deadline_ms = HELD_MS
        else:
            self._end(row, element)

    def _is_late(self, element: Element, row: Pending) -> bool:
        late_after_ms = max(row.immunity_ms, self.rules.transaction_timeout_ms)
        return (
            row.own_immunity
            and not element.says.from_check
            and element.says.actor is None
            and element.stored_at_ms - row.at.stored_at_ms > late_after_ms
        )

    def _end(self, row: Pending, element: Element) -> None:
        says = element.says
        if says.actor is not None:
            source = Source.OPERATOR
        elif says.from_check:
            source = Source.CHECK
        else:
            source = Source.END
        self._settle(row, _outcome(says.state), source, element)

    # Halves that their producers may commit themselves

    def _revoke(self, fast_id: str | None) -> None:
        """From here on the producer can commit nothing more by this id."""
        if fast_id is not None:
            self.revoked.pop(fast_id, None)
            self.revoked[fast_id] = self.now_ms

    def _is_free(self, row: Pending) -> bool:
        """Whether its ends wait for nothing."""
        return row.fast_id is None or row.gave_up or row.fast_id in self.revoked

    def _is_lost(self, row: Pending) -> bool:
        """Whether the half may have ended by an op that was deleted before it was read."""
        until_ms = self.lost_until_ms
        return row.fast_id is not None and until_ms is not None and row.at.stored_at_ms <= until_ms

    def _look_for_losses(self, ops: list[OpRead], plan: Plan) -> None:
        if self.is_first and self.is_rebuild:
            self.lost_until_ms = self.now_ms
        elif self.is_first and plan.ops_start > 0:
            self.lost_until_ms = HELD_MS
        self.is_first = False
        if ops and self.lost_until_ms == HELD_MS:
            self.lost_until_ms = min(ops, key=lambda op: op.offset).stored_at_ms

    def _must_wait(self, says: Ends, row: Pending) -> bool:
        """Whether an end waits: the producer alone knows that it has not committed the half."""
        is_its_rollback = (
            says.state is TransactionStatus.ROLLBACK_MESSAGE
            and not says.from_check
            and says.actor is None
        )
        return not self._is_free(row) and not is_its_rollback

    def _delivered(self, element: Element, row: Pending) -> None:
        """The message is out: no policy can refuse it, and no end that waits comes before it."""
        if row.fast_id is None:
            self._refuse_element(element, QuarantineReason.DELIVERED_TWICE)
            return
        self._settle(row, Outcome.COMMIT, Source.END, element)
        if row.waits is not None:
            self._element_after(row.waits, Outcome.COMMIT, True)

    def _end_what_waited(self) -> None:
        """Let the ends that waited end their halves, if nothing holds them up any more.

        Those of earlier batches take no more than a batch may; one always fits.
        """
        rows = self.pending.values()
        waiting = [(_place(row.waits), row.waits, row) for row in rows if row.waits]
        released = 0
        for _, element, row in sorted(waiting, key=lambda entry: entry[0]):
            if not self._is_free(row):
                continue
            if row.waits_since_before:
                is_first = not released
                released += self.stored[row.at.offset]
                if released > self.rules.max_output_bytes and not is_first:
                    continue
            self._end(row, element)
        self.left_waiting = any(row.waits and self._is_free(row) for row in rows)
        self.verdict.ended.sort(key=lambda end: self.places[end.stored_half.offset])

    def _may_be_asked_about(self, row: Pending) -> bool:
        return self._is_free(row) and not self._is_lost(row) and row.waits is None

    def _hold(self, watermark_ms: int) -> None:
        """Nothing is due of a half that nobody is asked about; it is due again when it is free."""
        for row in self.pending.values():
            if not self._may_be_asked_about(row):
                if row.deadline_ms < watermark_ms:
                    row.deadline_ms = HELD_MS
            elif row.deadline_ms == HELD_MS:
                own_ms = row.immunity_ms if row.own_immunity else self.rules.transaction_timeout_ms
                row.deadline_ms = row.at.stored_at_ms + own_ms

    def _want(self) -> None:
        """Ask to revoke the ids of halves that are due, or of which an end waits."""
        wanted = {
            row.fast_id: None
            for _, row in sorted(self.pending.items())
            if row.fast_id and not self._is_free(row) and row.deadline_ms == HELD_MS
            if row.waits is not None or not self._is_lost(row)
        }
        before = [fast_id for fast_id in self.wanted if fast_id in wanted]
        self.wanted = before + [fast_id for fast_id in wanted if fast_id not in before]

    def _asked_by_operator(self, row: Pending, at_ms: int) -> None:
        """The wait for the next check is over, unless the next would be the first or a discard."""
        rules = self.rules
        counted = row.checks if rules.count_unanswered_checks else row.answered
        is_old = self.now_ms - row.at.stored_at_ms > rules.file_reserved_ms
        if row.checks and counted < rules.transaction_check_max and not is_old:
            row.deadline_ms = min(row.deadline_ms, at_ms - 1)
            row.streak, row.extra = 0, False

    def _settle(
        self,
        row: Pending,
        outcome: Outcome,
        source: Source,
        element: Element | None,
        reason: DiscardReason | None = None,
    ) -> None:
        if reason is not None:
            self._count(row, "discarded")
        del self.pending[row.at.offset]
        is_fast = element is not None and element.says.delivered
        self.settled[row.at.offset] = Settled(outcome, self.now_ms, is_fast)
        if element is not None:
            self.places[row.at.offset] = _place(element)
        if outcome is Outcome.COMMIT and not row.deliverable and not is_fast:
            outcome, source = Outcome.UNDELIVERABLE, Source.DELIVERY
            reason = DiscardReason.UNDELIVERABLE
        self.verdict.ended.append(
            End(
                stored_half=row.at,
                outcome=outcome,
                source=source,
                op_offset=element.op_offset if element else None,
                ended_at_ms=element.stored_at_ms if element else None,
                checks=row.checks,
                answered=row.answered,
                decided_at_ms=self.now_ms,
                reason=reason,
                is_fast=is_fast,
            )
        )

    # Checks and discards

    def _due_rows(self) -> bool:
        """Check or discard what is due; True if the limit left some of it for the next batch."""
        groups, self.returned = self.returned, set()
        if self.watermark_ms is None:
            return False
        self._hold(self.watermark_ms)
        waiting = [row for row in self.pending.values() if self._waits(row, groups)]
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
        extra = self._fitting(sorted(waiting, key=_age), chosen)
        if len(extra) < len(waiting):
            self.returned = groups
        for row in sorted(chosen, key=_age):
            self._due_row(row, self.watermark_ms)
        for row in extra:
            self._check_once_more(row, self.watermark_ms)
        return len(due) > len(chosen)

    def _waits(self, row: Pending, groups: set[str]) -> bool:
        """Whether a half of these groups waits for an answer, and has an extra check for it."""
        rules, watermark_ms = self.rules, self.watermark_ms or 0
        is_old = self.now_ms - row.at.stored_at_ms > rules.file_reserved_ms
        return (
            not rules.count_unanswered_checks
            and self._may_be_asked_about(row)
            and row.at.half.group in groups
            and row.outstanding
            and not row.extra
            and row.deadline_ms >= watermark_ms
            and not is_old
            and row.answered < rules.transaction_check_max
        )

    def _fitting(self, waiting: list[Pending], chosen: list[Pending]) -> list[Pending]:
        """Return the first that fit beside those chosen; the limits are those of a batch."""
        size = sum(self.stored.get(row.at.offset, 0) for row in chosen)
        fitting: list[Pending] = []
        for row in waiting:
            size += self.stored.get(row.at.offset, 0)
            is_first = not chosen and not fitting
            if len(chosen) + len(fitting) >= self.rules.max_checks:
                break
            if size > self.rules.max_output_bytes and not is_first:
                break
            fitting.append(row)
        return fitting

    def _check_once_more(self, row: Pending, watermark_ms: int) -> None:
        self._count(row, "unanswered")
        self._count(row, "sent")
        row.checks += 1
        row.extra = True
        answer_ms = max(watermark_ms, self.now_ms) + self.rules.transaction_check_interval_ms
        row.deadline_ms = max(row.deadline_ms, answer_ms)
        self.verdict.checks.append(Asked(row.at, row.checks))

    def _due_row(self, row: Pending, watermark_ms: int) -> None:
        rules = self.rules
        if row.outstanding:
            self._count(row, "unanswered")
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
        self._count(row, "sent")
        if row.outstanding:
            row.streak += 1
        row.extra = False
        row.checks += 1
        row.outstanding = True
        wait_ms = rules.transaction_check_interval_ms
        if not rules.count_unanswered_checks:
            longest_ms = max(wait_ms, rules.check_backoff_max_ms)
            for _ in range(row.streak):
                wait_ms = min(wait_ms * 2, longest_ms)
        start_ms, together_ms = max(watermark_ms, self.now_ms), max(1, wait_ms // 2)
        row.deadline_ms = max(
            start_ms + rules.transaction_check_interval_ms,
            (start_ms + wait_ms) // together_ms * together_ms,
        )
        self.verdict.checks.append(Asked(row.at, row.checks))

    def _count(self, row: Pending, event: str) -> None:
        self.verdict.check_counts[row.at.half.group, event] += 1

    # Memory and time

    def _forget(self) -> None:
        """From the oldest range on, up to the first that is still needed or being filled.

        Of revocations, those that are too old.
        """
        reserved_ms = self.rules.file_reserved_ms
        self.revoked = {o: at for o, at in self.revoked.items() if self.now_ms - at <= reserved_ms}
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
        deadlines = [row.deadline_ms for row in self.pending.values()]
        return min((at_ms for at_ms in deadlines if at_ms != HELD_MS), default=None)

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


def _is_delivered(op: OpRead) -> bool:
    return isinstance(op.says, Ends) and op.says.delivered


def is_ahead(op: OpRead, plan: Plan, proved: int) -> bool:
    """Whether a half of the op may be there that is not read."""
    offsets = [element[0] for element in _elements(op) if element]
    return op.offset >= proved and any(offset >= plan.halves_end for offset in offsets)


def _size(at: StoredHalf) -> int:
    return record_bytes(at.half.key, at.half.body, at.all_headers)


def _place(element: Element) -> tuple[int, int]:
    return element.op_offset, element.position


def _age(row: Pending) -> tuple[int, int]:
    return row.deadline_ms, row.at.offset


def _outcome(state: TransactionStatus) -> Outcome:
    return {
        TransactionStatus.COMMIT_MESSAGE: Outcome.COMMIT,
        TransactionStatus.ROLLBACK_MESSAGE: Outcome.ROLLBACK,
    }[state]
