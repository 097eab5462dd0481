"""The judgement on each end: a half's first valid end wins.

`faults.py` says which ends may not count, `check_answers.py` has what an answer to a check changes,
`refusals.py` what goes to quarantine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...protocol import Outcome, QuarantineReason, Refused, Source, TransactionStatus
from .check_answers import answer, ask_again
from .decisions import CheckCounts, Ended
from .fast.ids import FastIds
from .fast.waiting_ends import Turns, ends_that_waited, let_wait
from .faults import Faults
from .op_elements import Array, OpElements, StoredOp, is_by_operator
from .pending import Pending
from .refusals import reasons_to_refuse, refuse
from .settings import StepSettings
from .state.head import Head
from .state.settled import COMMIT, FAST, NONE, OUTCOME, ROLLBACK, Settled

_CODES = {
    TransactionStatus.UNKNOWN: NONE,
    TransactionStatus.COMMIT_MESSAGE: COMMIT,
    TransactionStatus.ROLLBACK_MESSAGE: ROLLBACK,
}
_OUTCOMES = {COMMIT: Outcome.COMMIT, ROLLBACK: Outcome.ROLLBACK}
#: The winner's index for a half that no end ends: behind all elements.
_NEVER = np.iinfo(np.int64).max


class Judged(NamedTuple):
    """The ends of a batch, judged; `newly_back` are groups that had not answered, and do now."""

    ended: list[Ended]
    refused: list[Refused]
    duplicates: int
    answers: CheckCounts
    newly_back: list[str]


def judge(
    elements: OpElements,
    pending: Pending,
    settled: Settled,
    fast_ids: FastIds,
    head: Head,
    settings: StepSettings,
) -> Judged:
    """Apply elements in their order; `pending` has the rows of their halves.

    Each half was read already, or never existed. Up to a half's winner, elements meet a pending
    half. Elements after the winner meet a settled half. Ends that waited come first.
    """
    waited = ends_that_waited(elements, pending, fast_ids)  # only ends of fast halves wait
    if waited:
        elements = OpElements.of(waited).then(elements)
    row_of_element = pending.find(elements.half_offset)
    on_pending = row_of_element >= 0
    state = elements.each(lambda stored_op: _CODES[stored_op.op.state], np.uint8)
    # The producer has delivered the messages of these.
    is_fast = elements.each(lambda stored_op: stored_op.op.delivered, np.bool_)
    faults = Faults(elements, pending, row_of_element, is_fast, fast_ids, settings)
    faults.late[: len(waited)] = False  # judged when they were read
    # `twice` and `lost` concern fast commits only.
    is_wrong = ~faults.names_its_half | faults.late | faults.twice | faults.lost
    valid = on_pending & (state != NONE) & ~is_wrong
    winners, after = _first_valid(valid, row_of_element, len(pending.rows))
    overtaken = np.zeros(len(elements), np.bool_)
    if pending.fast.id.any():  # fast halves only: their ends may wait
        turns = Turns.of(
            elements, row_of_element, valid, faults.names_its_half, winners, after, pending
        )
        let_wait(turns, len(waited), pending, fast_ids, settings)
        winners, after, overtaken = turns.winners, turns.after, turns.overtaken

    meets_pending = on_pending & (after < 0)  # the winner itself too
    # A waiting end still counts as having met a pending half, even if a delivered op overtook it.
    met = meets_pending | (on_pending & overtaken)
    from_check = elements.each(lambda stored_op: stored_op.op.from_check, np.bool_)
    answering = met & faults.names_its_half & from_check
    answers, newly_back = answer(pending, row_of_element[answering], state[answering])
    asking = meets_pending & faults.names_its_half & (state == NONE)
    asking &= elements.each(is_by_operator, np.bool_)
    ask_again(elements.take(asking), row_of_element[asking], pending, head, settings)

    # A code is an outcome, and the bit FAST for a message that its producer has delivered.
    code = state | is_fast * np.uint8(FAST)
    known = np.zeros(len(elements), np.uint8)
    known[~on_pending] = settled.look_up(elements.half_offset[~on_pending])
    is_after = on_pending & ~meets_pending
    known[is_after] = code[after[is_after]]
    reasons = reasons_to_refuse(state, is_fast, known, on_pending, meets_pending, faults)
    repeated = (known != NONE) & (state == known & OUTCOME)
    repeated &= ~reasons[QuarantineReason.DELIVERED_TWICE]
    ended = _ended(elements.take(winners), row_of_element[winners], is_fast[winners], pending, head)
    settled.settle(elements.half_offset[winners], code[winners])
    pending.end(row_of_element[winners])
    refused = refuse(elements, reasons, settings, head)
    return Judged(ended, refused, int(repeated.sum()), answers, newly_back)


def _first_valid(valid: Array, row_of_element: Array, rows: int) -> tuple[Array, Array]:
    """Return the index of each row's first valid end: it wins, unless fast halves change that.

    Also return, for each element, the index of its half's winner if that comes before it, or -1.
    """
    candidates = np.flatnonzero(valid)
    _, first = np.unique(row_of_element[candidates], return_index=True)
    winners = np.sort(candidates[first])
    # An element without a pending half has row -1. That index picks the last entry, `_NEVER`.
    winner_of_row = np.full(rows + 1, _NEVER)
    winner_of_row[row_of_element[winners]] = winners
    winner = winner_of_row[row_of_element]
    return winners, np.where(np.arange(len(valid)) > winner, winner, -1)


def _ended(
    elements: OpElements, rows: Array, is_fast: Array, pending: Pending, head: Head
) -> list[Ended]:
    picked = pending.rows[rows]
    counts = (picked["checks"].tolist(), picked["answered"].tolist())
    ended = []
    halves = pending.halves(rows, is_fast)
    each = zip(halves, elements.op_index.tolist(), *counts, is_fast.tolist(), strict=True)
    for stored_half, op_index, checks, answered, by_producer in each:
        stored_op = elements.ops[op_index]
        outcome, source = _OUTCOMES[_CODES[stored_op.op.state]], _source(stored_op)
        transaction = Ended(
            stored_half,
            outcome,
            source,
            stored_op.offset,
            stored_op.stored_at_ms,
            checks,
            answered,
            head.now,
            is_fast=by_producer,
        )
        refusal = pending.refusals.get(stored_half.offset)
        # Consumers have a message that is delivered fast, whatever the policy says.
        if refusal and outcome is Outcome.COMMIT and not by_producer:
            transaction = transaction.undeliverable(refusal)
        ended.append(transaction)
    return ended


def _source(stored_op: StoredOp) -> Source:
    if is_by_operator(stored_op):
        return Source.OPERATOR
    return Source.CHECK if stored_op.op.from_check else Source.END
