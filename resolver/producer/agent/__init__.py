"""The agent: answers a group's checks, beside the producer or alone."""

from .agent import Agent
from .alone import TransactionAgent
from .limits import AgentLimits

__all__ = ["Agent", "AgentLimits", "TransactionAgent"]
