"""The points that a job's batch passes: its log tells of each, in these words.

Tests and fault campaigns hit a job at a point. They know a point by its name, not by its line.
"""

from __future__ import annotations

from enum import Enum


class Point(str, Enum):
    """A point of a batch; a line of the log has it as one of its values."""

    DECIDING = "deciding"
    DECIDED = "decided"
    OPEN = "transaction open"
    WRITTEN = "records written"
    COMMITTED = "transaction committed"
    DONE = "done"
    IN_TABLE = "rows in"
    LANDED = "landed"

    def __str__(self) -> str:
        return self.value
