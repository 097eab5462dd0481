"""All tables, and the topics that they are made of."""

from __future__ import annotations

from ..protocol import Names
from .check import CHECK
from .discarded import DISCARDED
from .half import HALF
from .op import OP
from .parked import PARKED
from .quarantine import QUARANTINE
from .resolution import RESOLUTION

#: The tables in the order in which a batch of land writes them. `resolution` is the last: a reader
#: that begins with it finds, in the other tables, all rows that landed with its outcomes.
TABLES = (HALF, OP, CHECK, DISCARDED, QUARANTINE, PARKED, RESOLUTION)


def topics_pattern(names: Names) -> str:
    """Return a regular expression for the names of all topics that the tables are made of.

    It is anchored. Spark looks for a pattern anywhere in a name, and would take `tx.operation` for
    `tx.op`, and the topics of the prefix `my-tx.` for those of `tx.`.
    """
    return "^(" + "|".join(table.topic_pattern(names) for table in TABLES) + ")$"
