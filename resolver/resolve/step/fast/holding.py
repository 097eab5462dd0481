"""Fast halves that are not asked about: their producers may still commit them.

Such a half is held: its deadline is `NEVER`, so it wakes no queue and takes no place among those
that are due. It is let go when its fast id is revoked.
"""

from __future__ import annotations

import numpy as np

from ..op_elements import Array
from ..pending import Pending
from ..settings import StepSettings
from ..state.head import SEGMENT, Head
from .ids import NEVER, FastIds, segments_of
from .waiting_ends import free_from, lost


def hold(pending: Pending, fast_ids: FastIds, head: Head, settings: StepSettings) -> Array:
    """Hold the halves that are due and may not be asked about; let go of those that are free.

    Return which rows may not be asked about, due or not.
    """
    if not pending.fast.id.any():
        return np.zeros(len(pending.rows), np.bool_)
    rows, is_lost = pending.rows, lost(pending, fast_ids)
    is_free = free_from(pending, fast_ids) < NEVER
    has_end = _has_end(pending)
    silent = pending.alive & (~is_free | is_lost | has_end)
    freed = pending.alive & ~silent & (rows["deadline"] == NEVER)
    own = np.where(rows["immunity"] > 0, rows["immunity"], settings.transaction_timeout_ms)
    rows["deadline"][freed] = rows["stored_at"][freed] + own[freed]
    due = silent & (rows["deadline"] < (head.watermark or 0))
    rows["deadline"][due] = NEVER
    pending.changed |= freed | due
    return np.asarray(silent)


def note_wishes(pending: Pending, fast_ids: FastIds, looked_at: set[int]) -> None:
    """Note which ids are to be revoked: those of halves that are due, or have an end that waits."""
    is_free = free_from(pending, fast_ids) < NEVER
    has_end = pending.alive & _has_end(pending)
    waits = pending.alive & ~is_free & (pending.rows["deadline"] == NEVER)
    waiting = np.flatnonzero(waits & (has_end | ~lost(pending, fast_ids)))
    segments = pending.rows["offset"][waiting] // SEGMENT
    wishes: dict[str, set[int]] = {}
    for index, segment in zip(pending.fast.id[waiting].tolist(), segments.tolist(), strict=True):
        wishes.setdefault(pending.fast.ids[index], set()).add(segment)
    fast_ids.want(wishes, looked_at)
    fast_ids.look_again(segments_of(pending.rows["offset"][has_end & is_free]), looked_at)


def _has_end(pending: Pending) -> Array:
    """Whether an end of a row waits."""
    has_end = np.zeros(len(pending.rows), np.bool_)
    waiting = pending.find(np.array(list(pending.fast.waiting), np.int64))
    has_end[waiting] = True
    return has_end
