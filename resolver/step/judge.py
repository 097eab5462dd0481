"""What becomes of each end: the first valid one of a half wins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..protocol import Outcome, QuarantineReason, Refused, Source, TransactionStatus
from .decisions import Ended
from .ends import Array, Ends, OpAt
from .pending import Pending
from .queue import Queue
from .settings import StepSettings
from .settled import COMMIT, NONE, ROLLBACK, Settled

_CODES = {
    TransactionStatus.UNKNOWN: NONE,
    TransactionStatus.COMMIT_MESSAGE: COMMIT,
    TransactionStatus.ROLLBACK_MESSAGE: ROLLBACK,
}
_OUTCOMES = {COMMIT: Outcome.COMMIT, ROLLBACK: Outcome.ROLLBACK}
_ERRORS = {
    QuarantineReason.UNKNOWN_HALF: "no half at offset {half} of this queue is pending or settled",
    QuarantineReason.GROUP_MISMATCH: "group {group!r} is not the group of the half at {half}",
    QuarantineReason.TRANSACTION_MISMATCH: "{id!r} is not the transaction id of the half at {half}",
    QuarantineReason.LATE_END: "stored after the immunity of the half at {half}; a check decides",
    QuarantineReason.CONFLICTING_END: "the half at {half} has ended otherwise already",
}
#: Later than any end: the winner of a half that nothing ends.
_NEVER = np.iinfo(np.int64).max


class Judged(NamedTuple):
    """The ends of a batch, judged."""

    ended: list[Ended]
    refused: list[Refused]
    duplicates: int


def judge(
    ends: Ends, pending: Pending, settled: Settled, queue: Queue, settings: StepSettings
) -> Judged:
    """Apply ends in their order, of halves that were read or never were; `pending` has their rows.

    An end before the winner of its half meets a pending half, one after it a settled one.
    """
    row = pending.find(ends.half)
    on_pending = row >= 0
    state = ends.each(lambda at: _CODES[at.op.state], np.uint8)
    faults = _Faults(ends, pending, row, settings)
    valid = on_pending & (state != NONE) & faults.none & ~faults.late
    winners, winner_of_row = _first_of_each_row(valid, row, len(pending.rows))

    place = np.arange(len(ends))
    winner = np.where(on_pending, winner_of_row[row], -1) if len(pending.rows) else row
    before = on_pending & (place <= winner)
    _answer(pending, row[before & faults.none & ends.each(lambda at: at.op.from_check, np.bool_)])

    code = np.zeros(len(ends), np.uint8)
    code[~on_pending] = settled.look_up(ends.half[~on_pending])
    after = on_pending & ~before
    code[after] = state[winner[after]]
    done = after | (code != NONE)
    repeated = done & (state == code)
    reasons = {
        QuarantineReason.UNKNOWN_HALF: ~on_pending & ~done,
        QuarantineReason.GROUP_MISMATCH: before & faults.group,
        QuarantineReason.TRANSACTION_MISMATCH: before & faults.transaction,
        QuarantineReason.LATE_END: before & (state != NONE) & faults.none & faults.late,
        QuarantineReason.CONFLICTING_END: done & (state != NONE) & ~repeated,
    }
    ended = _ended(ends.take(winners), row[winners], pending, queue)
    settled.settle(ends.half[winners], state[winners])
    pending.end(row[winners])
    return Judged(ended, _refused(ends, reasons, settings, queue), int(repeated.sum()))


class _Faults:
    """Why an end on a pending half may not count."""

    def __init__(self, ends: Ends, pending: Pending, row: Array, settings: StepSettings) -> None:
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
        plain = ends.each(lambda at: not at.op.from_check and at.op.actor is None, np.bool_)[found]
        self.late[found] = plain & (rows["immunity"] > 0) & (stored_at > latest)


def _first_of_each_row(valid: Array, row: Array, rows: int) -> tuple[Array, Array]:
    """Return the places of the first valid end of each row, in order, and each row's place."""
    candidates = np.flatnonzero(valid)
    _, first = np.unique(row[candidates], return_index=True)
    winners = np.sort(candidates[first])
    winner_of_row = np.full(rows, _NEVER)
    winner_of_row[row[winners]] = winners
    return winners, winner_of_row


def _answer(pending: Pending, rows: Array) -> None:
    """Take the first answer of each row whose check is out."""
    answered = np.unique(rows[pending.rows["asked"][rows]])
    pending.rows["answered"][answered] += 1
    pending.rows["asked"][answered] = False
    pending.rows["streak"][answered] = 0
    pending.changed[answered] = True


def _ended(ends: Ends, rows: Array, pending: Pending, queue: Queue) -> list[Ended]:
    picked = pending.rows[rows]
    columns = (ends.op.tolist(), picked["checks"].tolist(), picked["answered"].tolist())
    ended = []
    for half, op, checks, answered in zip(pending.halves(rows), *columns, strict=True):
        at = ends.ops[op]
        outcome, source = _OUTCOMES[_CODES[at.op.state]], _source(at)
        end = (outcome, source, at.offset, at.stored_at_ms, checks, answered, queue.now)
        ended.append(Ended(half, *end))
    return ended


def _source(at: OpAt) -> Source:
    if at.op.actor is not None:
        return Source.OPERATOR
    return Source.CHECK if at.op.from_check else Source.END


def _refused(
    ends: Ends,
    reasons: dict[QuarantineReason, Array],
    settings: StepSettings,
    queue: Queue,
) -> list[Refused]:
    """Return the refused elements, in their order."""
    topic = f"{settings.topic_prefix}op"
    placed: list[tuple[int, Refused]] = []
    for reason, where in reasons.items():
        refused = ends.take(where).refused(reason, _ERRORS[reason], topic, queue.number)
        placed += zip(np.flatnonzero(where).tolist(), refused, strict=True)
    return [refused for _, refused in sorted(placed, key=lambda entry: entry[0])]
