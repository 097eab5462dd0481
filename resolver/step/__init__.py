"""The pure step that joins half against op by queue offset."""

from .decisions import CheckSent, Decisions, Ended
from .queue import SEGMENT
from .settings import StepSettings
from .step import Plan, ops_to_read, settle, step
from .store import Changes

__all__ = [
    "SEGMENT",
    "Changes",
    "CheckSent",
    "Decisions",
    "Ended",
    "Plan",
    "StepSettings",
    "ops_to_read",
    "settle",
    "step",
]
