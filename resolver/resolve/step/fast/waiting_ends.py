"""Ends that wait: of halves that their producers may still commit themselves.

They are rare, so each half is judged by a plain loop over its elements. All other halves are judged
by columns, in `judge.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....protocol import TransactionStatus
from ..op_elements import Array, Ends, OpAt, is_by_application
from ..pending import Pending
from ..settings import StepSettings
from .halves import WaitingEnd
from .ids import NEVER, FastIds

#: The place of no end.
_NONE = -1


@dataclass
class Turns:
    """Which end of each half wins, and what decides which ends wait.

    All arrays except `winners` have an entry for each element.

    - `row`: the row of the element's half; -1 if the half is not pending.
    - `valid`: ends that count when their turn comes.
    - `gives_up`: the producer gives up to commit the half fast.
    - `is_fast`: ends by a delivered op; the turn of these comes at once.
    - `at_once`: the turn of these comes at once unless an end waits already.
    - `winners`: the places of the ends that end their halves, in order.
    - `after`: the place of the end after which an element is judged; -1 if none ended
      its half before.
    - `overtaken`: ends that were to wait, and whose half a delivered op behind them has ended.
    """

    ends: Ends
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
        ends: Ends,
        row: Array,
        valid: Array,
        names_its_half: Array,
        winners: Array,
        after: Array,
        pending: Pending,
    ) -> Turns:
        """Return the turns as `judge.py` finds them: no end waits yet."""
        gives_up = (row >= 0) & names_its_half & (pending.fast.id[row] > 0)
        gives_up &= ends.each(lambda at: at.op.gives_up_fast, np.bool_)
        is_fast = ends.each(lambda at: at.op.delivered, np.bool_)
        at_once = is_fast | ends.each(_withdraws, np.bool_)
        overtaken = np.zeros(len(ends), np.bool_)
        return cls(ends, row, valid, gives_up, is_fast, at_once, winners, after, overtaken)


def _withdraws(at: OpAt) -> bool:
    """Whether the application itself rolls back."""
    return at.op.state is TransactionStatus.ROLLBACK_MESSAGE and is_by_application(at)


def ends_that_waited(ends: Ends, pending: Pending, fast_ids: FastIds) -> list[OpAt]:
    """Return the ends of earlier batches that wait, where something may have changed for them."""
    waiting = pending.fast.waiting
    if not waiting:
        return []
    halves = np.array(sorted(waiting), np.int64)
    rows = pending.find(halves)
    concerned = (free_from(pending, fast_ids)[rows] < NEVER) | np.isin(halves, ends.half)
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
    op_offset = turns.ends.each(lambda at: at.offset, np.int64)
    waits = turns.valid & ~turns.at_once & (op_offset <= free[turns.row])
    waits[:waited] = True
    if not waits.any():
        return
    is_theirs = np.isin(turns.row, turns.row[waits])
    winners, waiting = [], []
    for row, places in _by_row(turns.row, is_theirs):
        winner, waits_on = _judge(turns, places, op_offset, int(free[row]))
        if winner != _NONE:
            winners.append(winner)
        elif waits_on != _NONE:
            waiting.append(waits_on)
    winners.sort()
    left = _too_much(winners, waited, turns.row, pending, settings)
    ended = [place for place in winners if place not in left]
    others = turns.winners[~is_theirs[turns.winners]]
    turns.winners = np.sort(np.concatenate((others, np.array(ended, np.int64))))
    _keep(turns.ends, [place for place in waiting if place >= waited], pending)
    for half in turns.ends.half[ended].tolist():
        pending.fast.waiting.pop(half, None)


def _by_row(row: Array, where: Array) -> Iterator[tuple[int, list[int]]]:
    """Yield each row that has an element `where`, and the places of its elements, in order."""
    places = np.flatnonzero(where)
    places = places[np.argsort(row[places], kind="stable")]
    rows, starts = np.unique(row[places], return_index=True)
    of_rows = np.split(places, starts[1:])
    for one, its_places in zip(rows.tolist(), of_rows, strict=True):
        yield one, its_places.tolist()


def _judge(turns: Turns, places: list[int], op_offset: Array, free_from: int) -> tuple[int, int]:
    """Judge the elements of a half; return the places of the winner, and of the end that waits.

    An end that waits ends the half before the first element behind `free_from`. A place is -1 where
    there is none.
    """
    waits = winner = _NONE
    judged = 0
    for place in places:
        is_free = op_offset[place] > free_from
        if waits != _NONE and is_free:
            break
        judged += 1
        turns.after[place] = _NONE if turns.is_fast[place] else waits
        if turns.gives_up[place]:
            free_from = -1
        elif turns.valid[place] and (turns.is_fast[place] or waits == _NONE):
            if turns.at_once[place] or is_free:
                winner = place
                break
            waits = place
    if winner == _NONE and free_from < NEVER:
        winner = waits
    turns.after[places[judged:]] = winner
    if winner not in (_NONE, waits) and waits != _NONE:
        turns.after[waits] = winner
        turns.overtaken[waits] = True
    return winner, waits


def _too_much(
    winners: list[int], waited: int, row: Array, pending: Pending, settings: StepSettings
) -> set[int]:
    """Return the winners that have waited before, and are too much for this batch."""
    before = np.array([place for place in winners if place < waited], np.int64)
    sizes = pending.stored_bytes(row[before])
    total = np.cumsum(sizes)
    return set(before[(total > settings.max_output_bytes) & (total > sizes)].tolist())


def _keep(ends: Ends, places: list[int], pending: Pending) -> None:
    """Keep ends with their halves; nothing is due of such a half before its id is revoked."""
    for place in places:
        at, half = ends.ops[int(ends.op[place])], int(ends.half[place])
        pending.fast.waiting[half] = WaitingEnd.of(at, int(ends.position[place]), half)
    rows = pending.find(ends.half[places])
    pending.rows["deadline"][rows] = NEVER
    pending.changed[rows] = True
