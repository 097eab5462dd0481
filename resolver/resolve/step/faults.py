"""Faults of ends: why an end on a pending half may not count."""

from __future__ import annotations

import numpy as np

from .fast.ids import FastIds
from .fast.waiting_ends import lost
from .op_elements import Array, Ends, is_by_application, is_by_operator
from .pending import Pending
from .settings import StepSettings


class Faults:
    """The reasons why an end on a pending half may not count.

    Each column has an entry for each end. Nobody reads that of an end whose half is not pending.
    `names_its_half` says that the end names the group and the transaction id of its half.
    `row_of_end` has the row of each end's half; -1 if the half is not pending.
    """

    def __init__(
        self,
        ends: Ends,
        pending: Pending,
        row_of_end: Array,
        is_fast: Array,
        fast_ids: FastIds,
        settings: StepSettings,
    ) -> None:
        found = row_of_end >= 0
        row = row_of_end[found]
        self.group = np.zeros(len(ends), np.bool_)
        self.transaction = np.zeros(len(ends), np.bool_)
        self.late = np.zeros(len(ends), np.bool_)
        groups = ends.each(lambda at: at.op.group, object)
        self.group[found] = groups[found] != pending.groups[row]
        self.transaction[found] = ends.ids[found] != pending.ids[row]
        self.transaction &= ~self.group
        self.names_its_half = ~self.group & ~self.transaction

        rows = pending.rows[row]
        latest = rows["stored_at"] + np.maximum(rows["immunity"], settings.transaction_timeout_ms)
        stored_at = ends.each(lambda at: at.stored_at_ms, np.int64)[found]
        plain = ends.each(is_by_application, np.bool_)[found] & ~is_fast[found]
        self.late[found] = plain & (rows["immunity"] > 0) & (stored_at > latest)

        #: Ends by delivered ops, of halves without a fast id.
        self.twice = self.names_its_half & is_fast
        self.twice[found] &= pending.fast.id[row] == 0
        #: Ends of halves that a lost op may have ended. Only an operator's end and a delivered op
        #: count there.
        self.lost = np.zeros(len(ends), np.bool_)
        self.lost[found] = lost(pending, fast_ids)[row]
        if self.lost.any():
            self.lost &= (
                self.names_its_half & ~self.late & ~is_fast & ~ends.each(is_by_operator, np.bool_)
            )
