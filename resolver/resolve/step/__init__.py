"""The pure step that joins half against op by queue offset."""

from .decisions import CheckCounts, CheckEvent, CheckSent, Ended, QueueDecisions
from .plan import Plan, ops_to_read
from .settings import StepSettings
from .state.head import SEGMENT
from .state.settled import settle_outcomes
from .state.store import Changes
from .step import step

__all__ = [
    "SEGMENT",
    "Changes",
    "CheckCounts",
    "CheckEvent",
    "CheckSent",
    "Ended",
    "Plan",
    "QueueDecisions",
    "StepSettings",
    "ops_to_read",
    "settle_outcomes",
    "step",
]
