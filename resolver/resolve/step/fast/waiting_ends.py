"""Ends that wait: of halves that their producers may still commit themselves.

They are rare, so each half is judged by a plain loop over its elements. All other halves are judged
by columns, in `judge.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....protocol import TransactionStatus
from ..op_elements import Array, OpElements, StoredOp, is_by_application
from ..pending import Pending
from ..settings import StepSettings
from .halves import WaitingEnd
from .ids import NEVER, FastIds

#: The index of no end.
_NONE = -1


@dataclass
class Turns:
    """Which end of each half wins, and what decides which ends wait.

    All arrays except `winners` have an entry for each element.

    - `row`: the row of the element's half; -1 if the half is not pending.
    - `valid`: ends that count when their turn comes.
    - `gives_up`: the producer gives up to commit the half fast.
    - `is_fast`: ends by a delivered op. These never wait.
    - `at_once`: ends that are judged immediately, unless another end of the same half already
      waits.
    - `winners`: the indices of the ends that end their halves, in order.
    - `after`: the index of the end after which an element is judged; -1 if none ended
      its half before.
    - `overtaken`: ends that were to wait, and whose half a delivered op behind them has ended.
    """

    elements: OpElements
    row: Array
    valid: Array
    gives_up: Array
    is_fast: Array
    at_once: Array
    winners: Array
    after: Array
    overtaken: Array

    @classmethod
    def of(
        cls,
        elements: OpElements,
        row: Array,
        valid: Array,
        names_its_half: Array,
        winners: Array,
        after: Array,
        pending: Pending,
    ) -> Turns:
        """Return the turns as `judge.py` finds them: no end waits yet."""
        gives_up = (row >= 0) & names_its_half & (pending.fast.id[row] > 0)
        gives_up &= elements.each(lambda stored_op: stored_op.op.gives_up_fast, np.bool_)
        is_fast = elements.each(lambda stored_op: stored_op.op.delivered, np.bool_)
        at_once = is_fast | elements.each(_withdraws, np.bool_)
        overtaken = np.zeros(len(elements), np.bool_)
        return cls(elements, row, valid, gives_up, is_fast, at_once, winners, after, overtaken)


def _withdraws(stored_op: StoredOp) -> bool:
    """Whether the application itself rolls back."""
    return stored_op.op.state is TransactionStatus.ROLLBACK_MESSAGE and is_by_application(stored_op)


def ends_that_waited(elements: OpElements, pending: Pending, fast_ids: FastIds) -> list[StoredOp]:
    """Return the ends of earlier batches that wait, where something may have changed for them."""
    waiting = pending.fast.waiting
    if not waiting:
        return []
    halves = np.array(sorted(waiting), np.int64)
    rows = pending.find(halves)
    concerned = (free_from(pending, fast_ids)[rows] < NEVER) | np.isin(halves, elements.half_offset)
    return [
        waiting[half].op(pending.ids[row], pending.groups[row])
        for half, row in zip(halves[concerned].tolist(), rows[concerned].tolist(), strict=True)
    ]


def free_from(pending: Pending, fast_ids: FastIds) -> Array:
    """Return the op offset behind which each row's ends wait for nothing.

    It is -1 for rows that are free already, and `NEVER` for rows that no op of this batch frees.
    """
    fast = pending.fast
    since = np.where(fast.gave_up, -1, fast_ids.revoked_since(fast.ids)[fast.id])
    return np.where(fast.id > 0, since, -1)


def lost(pending: Pending, fast_ids: FastIds) -> Array:
    """Whether a row may have ended by an op that was deleted before it was read."""
    if fast_ids.lost_until is None:
        return np.zeros(len(pending.rows), np.bool_)
    stored_at = pending.rows["stored_at"]
    return np.asarray((pending.fast.id > 0) & (stored_at <= fast_ids.lost_until))


def let_wait(
    turns: Turns, waited: int, pending: Pending, fast_ids: FastIds, settings: StepSettings
) -> None:
    """Correct the turns of halves of which an end waits, and keep the ends that wait on.

    The first `waited` elements are such ends of earlier batches. The messages that these release
    take at most `max_output_bytes` together, but one always fits.
    """
    free = free_from(pending, fast_ids)
    pending.fast.gave_up[turns.row[turns.gives_up]] = True
    pending.changed[turns.row[turns.gives_up]] = True
    op_offset = turns.elements.each(lambda stored_op: stored_op.offset, np.int64)
    waits = turns.valid & ~turns.at_once & (op_offset <= free[turns.row])
    waits[:waited] = True
    if not waits.any():
        return
    is_theirs = np.isin(turns.row, turns.row[waits])
    winners, waiting = [], []
    for row, indices in _by_row(turns.row, is_theirs):
        winner, waits_on = _judge(turns, indices, op_offset, int(free[row]))
        if winner != _NONE:
            winners.append(winner)
        elif waits_on != _NONE:
            waiting.append(waits_on)
    winners.sort()
    postponed = _too_much(winners, waited, turns.row, pending, settings)
    ended = [index for index in winners if index not in postponed]
    others = turns.winners[~is_theirs[turns.winners]]
    turns.winners = np.sort(np.concatenate((others, np.array(ended, np.int64))))
    _keep(turns.elements, [index for index in waiting if index >= waited], pending)
    for half in turns.elements.half_offset[ended].tolist():
        pending.fast.waiting.pop(half, None)


def _by_row(row: Array, where: Array) -> Iterator[tuple[int, list[int]]]:
    """Yield each row that has an element `where`, and the indices of its elements, in order."""
    indices = np.flatnonzero(where)
    indices = indices[np.argsort(row[indices], kind="stable")]
    rows, starts = np.unique(row[indices], return_index=True)
    indices_by_row = np.split(indices, starts[1:])
    for half_row, its_indices in zip(rows.tolist(), indices_by_row, strict=True):
        yield half_row, its_indices.tolist()


def _judge(turns: Turns, indices: list[int], op_offset: Array, free_from: int) -> tuple[int, int]:
    """Judge the elements of a half; return the indices of the winner, and of the end that waits.

    An end that waits ends the half before the first element behind `free_from`. An index is -1
    where there is none.
    """
    waits = winner = _NONE
    judged = 0
    for index in indices:
        is_free = op_offset[index] > free_from
        if waits != _NONE and is_free:
            break
        judged += 1
        turns.after[index] = _NONE if turns.is_fast[index] else waits
        if turns.gives_up[index]:
            free_from = -1
        elif turns.valid[index] and (turns.is_fast[index] or waits == _NONE):
            if turns.at_once[index] or is_free:
                winner = index
                break
            waits = index
    if winner == _NONE and free_from < NEVER:
        winner = waits
    turns.after[indices[judged:]] = winner
    if winner not in (_NONE, waits) and waits != _NONE:
        turns.after[waits] = winner
        turns.overtaken[waits] = True
    return winner, waits


def _too_much(
    winners: list[int], waited: int, row: Array, pending: Pending, settings: StepSettings
) -> set[int]:
    """Return the winners that have waited before, and whose messages exceed this batch's limit."""
    before = np.array([index for index in winners if index < waited], np.int64)
    sizes = pending.stored_bytes(row[before])
    total = np.cumsum(sizes)
    return set(before[(total > settings.max_output_bytes) & (total > sizes)].tolist())


def _keep(elements: OpElements, indices: list[int], pending: Pending) -> None:
    """Keep ends with their halves; nothing is due of such a half before its id is revoked."""
    for index in indices:
        stored_op, half = (
            elements.ops[int(elements.op_index[index])],
            int(elements.half_offset[index]),
        )
        pending.fast.waiting[half] = WaitingEnd.of(stored_op, int(elements.position[index]), half)
    rows = pending.find(elements.half_offset[indices])
    pending.rows["deadline"][rows] = NEVER
    pending.changed[rows] = True
