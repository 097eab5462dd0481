"""The points at which a resolver is hit: each is a line of its log."""

from __future__ import annotations

from resolver.ledger import TABLES
from resolver.spark.points import Point

RESOLVE_POINTS = {
    "before deciding": Point.DECIDING,
    "before the Kafka transaction": Point.DECIDED,
    "in the Kafka transaction": Point.WRITTEN,
    "after the Kafka transaction": Point.COMMITTED,
    "before Spark's commit log": Point.DONE,
}
#: Behind these tables of a batch land still writes others.
BETWEEN_TABLES = [table.name for table in TABLES[:-1]]
