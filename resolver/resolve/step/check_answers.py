"""Applies answers to checks, and the questions of operators, to pending halves."""

from __future__ import annotations

from collections import Counter

import numpy as np

from .checks import expired, unanswered, used_up
from .decisions import CheckCounts, CheckEvent
from .op_elements import Array, OpElements
from .pending import Pending
from .settings import StepSettings
from .state.head import Head
from .state.settled import COMMIT, NONE, ROLLBACK

_ANSWERS = {NONE: CheckEvent.UNKNOWN, COMMIT: CheckEvent.COMMIT, ROLLBACK: CheckEvent.ROLLBACK}


def answer(pending: Pending, rows: Array, states: Array) -> tuple[CheckCounts, list[str]]:
    """Take the first answer of each row that has an unanswered check; count them by state.

    Return also the groups of the rows whose earlier checks had stayed unanswered.
    """
    asked = pending.rows["asked"][rows]
    answered, first = np.unique(rows[asked], return_index=True)
    had_to_wait = unanswered(pending.rows["streak"][answered]) > 0
    newly_back = pending.groups[answered[had_to_wait]].tolist()
    pending.rows["answered"][answered] += 1
    pending.rows["asked"][answered] = False
    pending.rows["streak"][answered] = 0
    pending.changed[answered] = True
    events = (_ANSWERS[state] for state in states[asked][first].tolist())
    counts = Counter(zip(pending.groups[answered].tolist(), events, strict=True))
    return counts, newly_back


def ask_again(
    elements: OpElements, rows: Array, pending: Pending, head: Head, settings: StepSettings
) -> None:
    """End the wait for the next check of rows about which an operator asks.

    A half that no check has asked about keeps its immunity. A half whose limits are reached keeps
    its time for a last answer.
    """
    asked = pending.rows[rows]
    waits = (asked["checks"] > 0) & ~used_up(asked, settings) & ~expired(asked, head, settings)
    rows = rows[waits]
    # The watermark will be this op's stored_at or later: then the row is due in this batch.
    due = elements.each(lambda stored_op: stored_op.stored_at_ms, np.int64)[waits] - 1
    np.minimum.at(pending.rows["deadline"], rows, due)
    pending.rows["streak"][rows] = 0
    pending.changed[rows] = True
