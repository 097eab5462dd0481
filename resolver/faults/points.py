"""The named points at which a resolver is hit: each is a line of its log."""

from __future__ import annotations

from ..tables import TABLES

RESOLVE_POINTS = {
    "before deciding": r"^batch \d+: deciding",
    "before the Kafka transaction": r"^batch \d+: decided",
    "in the Kafka transaction": r"^batch \d+: \d+ records written",
    "after the Kafka transaction": r"^batch \d+: transaction committed",
    "before Spark's commit log": r"^batch \d+: done",
}
#: Land has written one of its tables, and others of the same batch are still to come.
BETWEEN_TABLES = [rf"^land's batch \d+: \d+ rows in {table.name}$" for table in TABLES[:-1]]
LANDED = r"^land's batch \d+: landed"
