"""The pure step that joins half against op by queue offset."""

from .decisions import CheckCounts, CheckEvent, CheckSent, Ended, QueueDecisions
from .left_ops import Plan, ops_to_read
from .queue import SEGMENT
from .settings import StepSettings
from .settled import settle
from .step import step
from .store import Changes

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
    "settle",
    "step",
]
