"""The Delta tables of the ledger: their columns, and how records become their rows."""

from ..protocol import Names
from .check import CHECK
from .discarded import DISCARDED
from .half import HALF
from .op import OP, elements
from .quarantine import QUARANTINE
from .resolution import RESOLUTION
from .table import HEADERS, PARTITION_COLUMN, Field, Table

TABLES = (HALF, OP, CHECK, RESOLUTION, DISCARDED, QUARANTINE)

__all__ = [
    "CHECK",
    "DISCARDED",
    "HALF",
    "HEADERS",
    "OP",
    "PARTITION_COLUMN",
    "QUARANTINE",
    "RESOLUTION",
    "TABLES",
    "Field",
    "Table",
    "elements",
    "topics_pattern",
]


def topics_pattern(names: Names) -> str:
    """Return a regular expression for the names of all topics that the tables are made of."""
    return "|".join(table.topic_pattern(names) for table in TABLES)
