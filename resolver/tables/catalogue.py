"""All tables, and the topics that they are made of."""

from __future__ import annotations

from ..protocol import Names
from .check import CHECK
from .discarded import DISCARDED
from .half import HALF
from .op import OP
from .quarantine import QUARANTINE
from .resolution import RESOLUTION

#: In the order in which a batch of land writes them. `resolution` is the last: who reads it before
#: the others finds in them what landed with the outcomes that it has.
TABLES = (HALF, OP, CHECK, DISCARDED, QUARANTINE, RESOLUTION)


def topics_pattern(names: Names) -> str:
    """Return a regular expression for the names of all topics that the tables are made of."""
    return "|".join(table.topic_pattern(names) for table in TABLES)
