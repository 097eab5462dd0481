"""The table `quarantine`: refused records, and refused elements of ops."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from .half import MESSAGE_FIELDS
from .op import OP, body_offsets, body_text, body_transaction_ids, with_body
from .reading import header_last, headers, whole, whole_int
from .table import Field, Table


def _with_marks(records: DataFrame) -> DataFrame:
    """Add `marks`, the headers that the resolver put behind the record's own.

    A refused record may itself carry headers of these names, and be refused for them. So the marks
    begin at the last REASON.
    """
    backwards = F.reverse(F.transform(headers(), lambda header: header["key"]))
    length = F.array_position(backwards, n.REASON).cast("int")
    marks = F.when(length > 0, F.slice(headers(), -length, length))
    return with_body(records).withColumn("marks", marks)


def _mark(name: str) -> Column:
    return header_last(name, F.col("marks"))


def _refused_topic() -> Column:
    return F.split_part(_mark(n.SOURCE), F.lit(":"), F.lit(1))


def _refused_place(position: int) -> Column:
    # A topic's name holds no colon.
    return whole(F.split_part(_mark(n.SOURCE), F.lit(":"), F.lit(position)))


def _element(values: Column) -> Column:
    # A refused element comes in an op that was written again for this element alone.
    return F.when(_mark(n.ELEMENT).isNotNull(), F.get(values, F.lit(0)))


def _readable(field: Field) -> Field:
    """Read a field of a half as it is, and a field of an op from its body if that is possible."""
    others: dict[str, Callable[[], Column]] = {
        "transaction_id": lambda: _element(body_transaction_ids()),
        "group": lambda: body_text("group"),
    }
    other = others.get(field.name)
    if other is None:
        return field

    def read() -> Column:
        # The body of a half is the user's, and says nothing of the protocol.
        return F.when(_refused_topic().endswith(OP.topic), other()).otherwise(field.read())

    return Field(field.name, field.type, field.comment, read)


QUARANTINE = Table(
    name="quarantine",
    topic="quarantine",
    comment="What was refused, with the reason; as much of it as can be read is in columns.",
    prepare=_with_marks,
    own_fields=(
        Field("reason", "string", "Why it was refused", lambda: _mark(n.REASON)),
        Field("error", "string", "The same in words, with the value", lambda: _mark(n.ERROR)),
        Field(
            "refused_topic",
            "string",
            "Topic of the refused record",
            _refused_topic,
        ),
        Field("queue", "int", "Queue of the refused record", lambda: _refused_place(2)),
        Field("refused_offset", "bigint", "Its offset there", lambda: _refused_place(3)),
        Field("element", "int", "Which element of an op", lambda: whole_int(_mark(n.ELEMENT))),
        Field(
            "offset",
            "bigint",
            "Offset of the half that the op's element names",
            lambda: _element(body_offsets()),
        ),
        *map(_readable, MESSAGE_FIELDS),
        Field(
            "truncated",
            "boolean",
            "Whether it was cut to fit into the topic",
            lambda: F.coalesce(_mark(n.TRUNCATED) == "true", F.lit(False)),
        ),
    ),
)
