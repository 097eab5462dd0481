"""Faults of elements: why an element about a pending half may not count."""

from __future__ import annotations

import numpy as np

from .fast.ids import FastIds
from .fast.waiting_ends import lost
from .op_elements import Array, OpElements, is_by_application, is_by_operator
from .pending import Pending
from .settings import StepSettings


class Faults:
    """The reasons why an element about a pending half may not count.

    Each column has an entry for each element. Nobody reads the entry if the half is not pending.
    `names_its_half` says that the element names the group and the transaction id of its half.
    `row_of_element` has the row of each element's half; -1 if the half is not pending.
    """

    def __init__(
        self,
        elements: OpElements,
        pending: Pending,
        row_of_element: Array,
        is_fast: Array,
        fast_ids: FastIds,
        settings: StepSettings,
    ) -> None:
        on_pending = row_of_element >= 0
        row = row_of_element[on_pending]
        self.group = np.zeros(len(elements), np.bool_)
        self.transaction = np.zeros(len(elements), np.bool_)
        self.late = np.zeros(len(elements), np.bool_)
        groups = elements.each(lambda stored_op: stored_op.op.group, object)
        self.group[on_pending] = groups[on_pending] != pending.groups[row]
        self.transaction[on_pending] = elements.ids[on_pending] != pending.ids[row]
        self.transaction &= ~self.group
        self.names_its_half = ~self.group & ~self.transaction

        rows = pending.rows[row]
        latest = rows["stored_at"] + np.maximum(rows["immunity"], settings.transaction_timeout_ms)
        stored_at = elements.each(lambda stored_op: stored_op.stored_at_ms, np.int64)[on_pending]
        plain = elements.each(is_by_application, np.bool_)[on_pending] & ~is_fast[on_pending]
        self.late[on_pending] = plain & (rows["immunity"] > 0) & (stored_at > latest)

        #: Ends by delivered ops, of halves without a fast id.
        self.twice = self.names_its_half & is_fast
        self.twice[on_pending] &= pending.fast.id[row] == 0
        #: Ends of halves that a lost op may have ended. Only an operator's end and a delivered op
        #: count there.
        self.lost = np.zeros(len(elements), np.bool_)
        self.lost[on_pending] = lost(pending, fast_ids)[row]
        if self.lost.any():
            by_operator = elements.each(is_by_operator, np.bool_)
            self.lost &= self.names_its_half & ~self.late & ~is_fast & ~by_operator
