"""The table `op`: every record of the op topic, also fences, revocations and malformed records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from .reading import header_once, headers, text
from .table import Field, Table


def with_body(records: DataFrame) -> DataFrame:
    """Add `body`, the record's value as JSON; null if the value is no JSON."""
    return records.withColumn("body", F.try_parse_json(text(F.col("record.value"))))


def body_text(name: str) -> Column:
    """Return a text field of the body; null if the field is no text."""
    return _typed(F.try_variant_get(F.col("body"), f"$.{name}", "variant"), "STRING", "string")


def body_offsets() -> Column:
    """Return the halves' offsets; null in place of an element that is no whole number."""
    return F.transform(_list("offsets"), lambda element: _typed(element, "BIGINT", "bigint"))


def body_transaction_ids() -> Column:
    """Return the halves' transaction ids; null in place of an element that is no text."""
    return F.transform(
        _list("transaction_ids"), lambda element: _typed(element, "STRING", "string")
    )


def json_type(name: str) -> Column:
    """Return Spark's word for the type of a body's field: VOID is JSON's null, null is no field."""
    return F.schema_of_variant(F.try_variant_get(F.col("body"), f"$.{name}", "variant"))


def elements(op: DataFrame) -> DataFrame:
    """Return one row per element of the ops in table `op`: position, offset, transaction_id."""
    zipped = F.arrays_zip("offsets", "transaction_ids")
    return op.select("*", F.posexplode(zipped).alias("position", "element")).select(
        *[name for name in op.columns if name not in ("offsets", "transaction_ids")],
        "position",
        F.col("element.offsets").alias("offset"),
        F.col("element.transaction_ids").alias("transaction_id"),
    )


def _list(name: str) -> Column:
    return F.try_variant_get(F.col("body"), f"$.{name}", "array<variant>")


def _typed(value: Column, json_type: str, sql_type: str) -> Column:
    # A plain cast would take "17" for the number 17, which the protocol refuses.
    is_typed = F.schema_of_variant(value) == json_type
    return F.when(is_typed, F.try_variant_get(value, "$", sql_type))


def _flag(name: str) -> Column:
    field = F.try_variant_get(F.col("body"), f"$.{name}", "variant")
    return _typed(field, "BOOLEAN", "boolean")


def _revoked_id() -> Column:
    is_revocation = header_once(n.TAGS) == n.REVOKED_TAG.decode()
    return F.when(is_revocation & (F.size(headers()) == 1), body_text("fast"))


OP = Table(
    name="op",
    topic="op",
    comment="Ends of local transactions: one state for many halves of one queue.",
    prepare=with_body,
    own_fields=(
        Field("queue", "int", "Queue of its halves", lambda: F.col("record.partition")),
        Field(
            "tag",
            "string",
            "d for an op, fence for a fence, revoked for the revocation of a fast id",
            lambda: header_once(n.TAGS),
        ),
        Field(
            "state",
            "string",
            "COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOWN",
            lambda: body_text("state"),
        ),
        Field("group", "string", "The producer group", lambda: body_text("group")),
        Field("offsets", "array<bigint>", "Offsets of its halves", body_offsets),
        Field("transaction_ids", "array<string>", "Their transaction ids", body_transaction_ids),
        Field("from_check", "boolean", "Whether it answers a check", lambda: _flag("from_check")),
        Field("remark", "string", "What the application says of it", lambda: body_text("remark")),
        Field("actor", "string", "The operator who settled it", lambda: body_text("actor")),
        Field(
            "delivered",
            "boolean",
            "Whether its producer delivered the messages together with it",
            lambda: _flag("delivered"),
        ),
        Field(
            "fast",
            "boolean",
            "False if its producer will not deliver the messages itself",
            lambda: _flag("fast"),
        ),
        Field("fast_id", "string", "In a revocation: the fast id", _revoked_id),
        Field(
            "stored_at",
            "timestamp",
            "When Kafka stored it (UTC)",
            lambda: F.col("record.timestamp"),
        ),
    ),
)
