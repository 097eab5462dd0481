"""The table `half`: every half message, well-formed or not."""

from __future__ import annotations

from pyspark.sql import functions as F

from ..protocol import names as n
from .reading import header_once, time_of, whole, whole_int
from .table import Field, Table

#: Who sent a message and where it goes, as the headers of a half, a check or a discarded one say.
MESSAGE_FIELDS = (
    Field("transaction_id", "string", "The transaction's id", lambda: header_once(n.UNIQ_KEY)),
    Field("group", "string", "The producer group", lambda: header_once(n.PGROUP)),
    Field("topic", "string", "Where a commit is delivered", lambda: header_once(n.REAL_TOPIC)),
    Field(
        "born_at",
        "timestamp",
        "When the producer made it, by the producer's clock (UTC)",
        lambda: time_of(whole(header_once(n.BORN_TIMESTAMP))),
    ),
)

HALF = Table(
    name="half",
    topic="half",
    comment="Half messages: stored, invisible until their transaction commits.",
    own_fields=(
        Field("queue", "int", "Queue of the half", lambda: F.col("record.partition")),
        Field(
            "offset", "bigint", "Its offset; names it with queue", lambda: F.col("record.offset")
        ),
        *MESSAGE_FIELDS,
        Field(
            "stored_at",
            "timestamp",
            "When Kafka stored it (UTC)",
            lambda: F.col("record.timestamp"),
        ),
        Field(
            "real_qid",
            "int",
            "Partition that it asks to be delivered to",
            lambda: whole_int(header_once(n.REAL_QID)),
        ),
        Field(
            "immunity_seconds",
            "bigint",
            "Its own time before a check, if it is a whole number",
            lambda: whole(header_once(n.CHECK_IMMUNITY_TIME_IN_SECONDS)),
        ),
    ),
)
