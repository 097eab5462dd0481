"""The Delta tables of the ledger: their columns, and how records become their rows."""

from .catalogue import TABLES, topics_pattern
from .check import CHECK
from .discarded import DISCARDED
from .half import HALF
from .op import OP, elements
from .parked import PARKED
from .quarantine import QUARANTINE
from .resolution import RESOLUTION
from .table import HEADERS, PARTITION_COLUMN, Field, Table

__all__ = [
    "CHECK",
    "DISCARDED",
    "HALF",
    "HEADERS",
    "OP",
    "PARKED",
    "PARTITION_COLUMN",
    "QUARANTINE",
    "RESOLUTION",
    "TABLES",
    "Field",
    "Table",
    "elements",
    "topics_pattern",
]
