"""The table `half`: every half message, well-formed or not. Fences do not land."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from .reading import header_once, time_of, whole, whole_int
from .table import Field, Table

#: A message's sender and destination, by the headers of a half, a check or a discarded message.
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


def _without_fences(records: DataFrame) -> DataFrame:
    """Leave out the resolver's own records, which are no halves."""
    headers = F.col("record.headers")
    tag = F.get(headers, F.lit(0))
    is_tag = (tag["key"] == n.TAGS) & (tag["value"] == F.lit(n.FENCE_TAG))
    return records.where(~F.coalesce((F.size(headers) == 1) & is_tag, F.lit(False)))


HALF = Table(
    name="half",
    prepare=_without_fences,
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
        Field(
            "fast_id",
            "string",
            "Transactional id by which its producer may deliver it itself, if any",
            lambda: header_once(n.FAST),
        ),
    ),
)
