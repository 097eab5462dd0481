"""All tables, and the topics that they are made of."""

from __future__ import annotations

from ..protocol import Names
from .check import CHECK
from .discarded import DISCARDED
from .half import HALF
from .op import OP
from .quarantine import QUARANTINE
from .resolution import RESOLUTION

TABLES = (HALF, OP, CHECK, RESOLUTION, DISCARDED, QUARANTINE)


def topics_pattern(names: Names) -> str:
    """Return a regular expression for the names of all topics that the tables are made of."""
    return "|".join(table.topic_pattern(names) for table in TABLES)
