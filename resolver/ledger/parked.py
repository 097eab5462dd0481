"""The table `parked`: messages that wait, or waited, for their topic, and the lane's releases."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from .half import MESSAGE_FIELDS
from .reading import header_last, headers, offset_of, queue_of, text, time_of
from .table import Field, Table

_OUTCOME = "outcome string, source string, decided_at bigint"
_RELEASE = "topic string, upto bigint"


def _with_body(records: DataFrame) -> DataFrame:
    """Add `body`, the decision about a message, and `release`, which is null for a message."""
    is_release = header_last(n.TAGS, headers()) == n.RELEASE_TAG.decode()
    is_release = is_release & (F.size(headers()) == 1)
    release = F.from_json(text(F.col("record.value")), _RELEASE)
    return records.withColumns(
        {
            "body": F.from_json(header_last(n.RESOLUTION, headers()), _OUTCOME),
            "release": F.when(is_release, release),
        }
    )


PARKED = Table(
    name="parked",
    topic="parked",
    comment="Messages that wait, or waited, for their topic to take them, and releases.",
    prepare=_with_body,
    own_fields=(
        Field(
            "queue",
            "int",
            "Queue of the half; null in a release",
            lambda: queue_of(header_last(n.HALF_OFFSET, headers())),
        ),
        Field(
            "offset",
            "bigint",
            "Offset of the half",
            lambda: offset_of(header_last(n.HALF_OFFSET, headers())),
        ),
        *MESSAGE_FIELDS,
        Field("outcome", "string", "How it ends", lambda: F.col("body.outcome")),
        Field("source", "string", "Who ended it", lambda: F.col("body.source")),
        Field(
            "decided_at",
            "timestamp",
            "When it was resolved (UTC)",
            lambda: time_of(F.col("body.decided_at")),
        ),
        Field(
            "released_upto",
            "bigint",
            "In a release: records of this topic before this offset wait no longer; 0: none",
            lambda: F.col("release.upto"),
        ),
        Field(
            "released_topic",
            "string",
            "In a release: messages of which topic; null: of all",
            lambda: F.col("release.topic"),
        ),
    ),
)
