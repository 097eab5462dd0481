"""All views by their names."""

from __future__ import annotations

from .events import DIFF, TIMELINE
from .groups import FAILED, FAILURES, GROUPS, LATENCY, RATES
from .transactions import (
    BODIES,
    CHECKS_AND_ANSWERS,
    OPEN_CHECKS,
    OPEN_HALVES,
    OPEN_SEGMENTS,
    PENDING,
    REFUSED_HALVES,
    TRANSACTIONS,
    WAITING_IN_LANE,
)

#: The views that stand in a catalogue of SQL: they need no parameter.
NAMED_VIEWS = (TRANSACTIONS, PENDING, FAILURES, FAILED, GROUPS, RATES, LATENCY, BODIES)

_PARTS = (
    REFUSED_HALVES,
    OPEN_SEGMENTS,
    OPEN_HALVES,
    WAITING_IN_LANE,
    CHECKS_AND_ANSWERS,
    OPEN_CHECKS,
)
VIEWS = {view.name: view for view in (*NAMED_VIEWS, *_PARTS, TIMELINE, DIFF)}
