"""The judgement on each end: a half's first valid end wins.

`answers.py` has what an answer to a check changes, `refusals.py` what goes to quarantine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...protocol import Outcome, QuarantineReason, Refused, Source, TransactionStatus
from .answers import answer, ask_again
from .decisions import CheckCounts, Ended
from .fast_ids import FastIds
from .op_elements import Array, Ends, OpAt, Turns
from .pending import Pending
from .queue import Queue
from .refusals import refuse
from .settings import StepSettings
from .settled import COMMIT, FAST, NONE, OUTCOME, ROLLBACK, Settled
from .waiting import carried, let_wait, lost

_CODES = {
    TransactionStatus.UNKNOWN: NONE,
    TransactionStatus.COMMIT_MESSAGE: COMMIT,
    TransactionStatus.ROLLBACK_MESSAGE: ROLLBACK,
}
_OUTCOMES = {COMMIT: Outcome.COMMIT, ROLLBACK: Outcome.ROLLBACK}
#: Winner's place for a half that no end ends: behind all places.
_NEVER = np.iinfo(np.int64).max


class Judged(NamedTuple):
    """The ends of a batch, judged; `returned` are groups that had not answered, and do now."""

    ended: list[Ended]
    refused: list[Refused]
    duplicates: int
    answers: CheckCounts
    returned: list[str]


def judge(
    ends: Ends,
    pending: Pending,
    settled: Settled,
    fast_ids: FastIds,
    queue: Queue,
    settings: StepSettings,
) -> Judged:
    """Apply ends in their order; `pending` has the rows of their halves.

    Each half was read already, or never existed. The winner of a half and the ends before it meet
    a pending half, later ends a settled half. Ends that waited come first.
    """
    waited = carried(ends, pending, fast_ids)
    if waited:
        ends = Ends.of(waited).then(ends)
    row = pending.find(ends.half)
    on_pending = row >= 0
    state = ends.each(lambda at: _CODES[at.op.state], np.uint8)
    delivered = ends.each(lambda at: at.op.delivered, np.bool_)
    faults = _Faults(ends, pending, row, delivered, fast_ids, settings)
    faults.late[: len(waited)] = False  # judged when they were read
    turns = _turns(ends, row, state, delivered, faults, pending)
    let_wait(turns, len(waited), pending, fast_ids, settings)
    winners = turns.winners

    before = on_pending & (turns.after < 0)
    # An end that was to wait met a pending half, although a delivered op has overtaken it.
    met = before | (on_pending & turns.overtaken)
    answering = met & faults.none & ends.each(lambda at: at.op.from_check, np.bool_)
    answers, returned = answer(pending, row[answering], state[answering])
    asking = before & faults.none & (state == NONE) & ends.each(_is_operators, np.bool_)
    ask_again(ends.take(asking), row[asking], pending, queue, settings)

    code = state | delivered * np.uint8(FAST)
    known = np.zeros(len(ends), np.uint8)
    known[~on_pending] = settled.look_up(ends.half[~on_pending])
    is_after = on_pending & ~before
    known[is_after] = code[turns.after[is_after]]
    reasons = _reasons(state, delivered, known, on_pending, before, faults)
    repeated = (known != NONE) & (state == known & OUTCOME)
    repeated &= ~reasons[QuarantineReason.DELIVERED_TWICE]
    ended = _ended(ends.take(winners), row[winners], delivered[winners], pending, queue)
    settled.settle(ends.half[winners], code[winners])
    pending.end(row[winners])
    refused = refuse(ends, reasons, settings, queue)
    return Judged(ended, refused, int(repeated.sum()), answers, returned)


def _turns(
    ends: Ends, row: Array, state: Array, delivered: Array, faults: _Faults, pending: Pending
) -> Turns:
    """Return each half's winner, its first valid end; `let_wait` corrects this for fast halves."""
    on_pending = row >= 0
    valid = on_pending & (state != NONE) & faults.none & ~(faults.late | faults.twice | faults.lost)
    winners, winner_of_row = _first_of_each_row(valid, row, len(pending.rows))
    winner = np.where(on_pending, winner_of_row[row], -1) if len(pending.rows) else row
    after = np.where(np.arange(len(ends)) > winner, winner, -1)
    gives_up = np.zeros(len(ends), np.bool_)
    at_once = delivered
    if pending.fast.id.any():
        gives_up = on_pending & faults.none & (pending.fast.id[row] > 0)
        gives_up &= ends.each(lambda at: not at.op.fast, np.bool_)
        withdraws = (state == ROLLBACK) & ends.each(_is_applications, np.bool_)
        at_once = delivered | withdraws
    overtaken = np.zeros(len(ends), np.bool_)
    return Turns(ends, row, valid, gives_up, delivered, at_once, winners, after, overtaken)


def _reasons(
    state: Array,
    delivered: Array,
    known: Array,
    on_pending: Array,
    before: Array,
    faults: _Faults,
) -> dict[QuarantineReason, Array]:
    """Return which elements are refused; `known` is the code of a half that has ended."""
    done, ends_it = known != NONE, state != NONE
    twice = done & delivered & (known & FAST == 0)
    conflicts = done & ends_it & (state != known & OUTCOME)
    return {
        QuarantineReason.UNKNOWN_HALF: ~on_pending & ~done,
        QuarantineReason.GROUP_MISMATCH: before & faults.group,
        QuarantineReason.TRANSACTION_MISMATCH: before & faults.transaction,
        QuarantineReason.LATE_END: before & ends_it & faults.none & faults.late,
        QuarantineReason.CONFLICTING_END: (conflicts & ~twice) | (before & ends_it & faults.lost),
        QuarantineReason.DELIVERED_TWICE: twice | (before & faults.twice),
    }


class _Faults:
    """The reasons why an end on a pending half may not count."""

    def __init__(
        self,
        ends: Ends,
        pending: Pending,
        row: Array,
        delivered: Array,
        fast_ids: FastIds,
        settings: StepSettings,
    ) -> None:
        found = row >= 0
        self.group = np.zeros(len(ends), np.bool_)
        self.transaction = np.zeros(len(ends), np.bool_)
        self.late = np.zeros(len(ends), np.bool_)
        groups = ends.each(lambda at: at.op.group, object)
        self.group[found] = groups[found] != pending.groups[row[found]]
        self.transaction[found] = ends.ids[found] != pending.ids[row[found]]
        self.transaction &= ~self.group
        self.none = ~self.group & ~self.transaction

        rows = pending.rows[row[found]]
        latest = rows["stored_at"] + np.maximum(rows["immunity"], settings.transaction_timeout_ms)
        stored_at = ends.each(lambda at: at.stored_at_ms, np.int64)[found]
        plain = ends.each(_is_applications, np.bool_)[found] & ~delivered[found]
        self.late[found] = plain & (rows["immunity"] > 0) & (stored_at > latest)

        #: Ends of producers that have delivered a half which names no fast id.
        self.twice = self.none & delivered
        self.twice[found] &= pending.fast.id[row[found]] == 0
        #: Ends of halves that a lost op may have ended. Only an operator's end and a delivered op
        #: count there.
        self.lost = np.zeros(len(ends), np.bool_)
        self.lost[found] = lost(pending, fast_ids)[row[found]]
        if self.lost.any():
            self.lost &= self.none & ~self.late & ~delivered & ~ends.each(_is_operators, np.bool_)


def _first_of_each_row(valid: Array, row: Array, rows: int) -> tuple[Array, Array]:
    """Return the places of the rows' first valid ends, in order, and the place for each row."""
    candidates = np.flatnonzero(valid)
    _, first = np.unique(row[candidates], return_index=True)
    winners = np.sort(candidates[first])
    winner_of_row = np.full(rows, _NEVER)
    winner_of_row[row[winners]] = winners
    return winners, winner_of_row


def _is_operators(at: OpAt) -> bool:
    return at.op.actor is not None


def _is_applications(at: OpAt) -> bool:
    return not (at.op.from_check or _is_operators(at))


def _ended(
    ends: Ends, rows: Array, delivered: Array, pending: Pending, queue: Queue
) -> list[Ended]:
    picked = pending.rows[rows]
    columns = (ends.op.tolist(), picked["checks"].tolist(), picked["answered"].tolist())
    ended = []
    halves = pending.halves(rows, delivered)
    for half, op, checks, answered in zip(halves, *columns, strict=True):
        at = ends.ops[op]
        outcome, source = _OUTCOMES[_CODES[at.op.state]], _source(at)
        end = (outcome, source, at.offset, at.stored_at_ms, checks, answered, queue.now)
        refusal = pending.refusals.get(half.offset)
        if at.op.delivered:  # consumers have the message, whatever the policy says
            ended.append(Ended(half, *end, None, None, True))
        elif refusal and outcome is Outcome.COMMIT:
            ended.append(Ended(half, *end).undeliverable(refusal))
        else:
            ended.append(Ended(half, *end))
    return ended


def _source(at: OpAt) -> Source:
    if _is_operators(at):
        return Source.OPERATOR
    return Source.CHECK if at.op.from_check else Source.END
