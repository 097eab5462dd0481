"""Ops, as the protocol reads them: the ends they ask for, and what of them is malformed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..protocol import TransactionStatus
from ..protocol import names as n
from ..tables import elements
from ..tables.op import json_type
from .halves import has_doubtful_name

_STATES = tuple(status.value for status in TransactionStatus)
_LEGAL_GROUP = rf"\A[a-zA-Z0-9._-]{{1,{n.MAX_GROUP_LENGTH}}}\z"
#: Strings, which are kept, and blanks outside of them.
_BLANKS = r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|[ \t\r\n]+'
#: A record as a whole has no element.
WHOLE = -1


def read_ops(ops: DataFrame, quarantine: DataFrame, prefix: str) -> DataFrame:
    """Return ops without fences, each with what is known of it.

    `watermark_ms` is the watermark of its queue when it had been read. `well_formed`: its fields
    are. `refused`: it is in quarantine as a whole.
    """
    queue = Window.partitionBy("queue").orderBy("source_offset")
    is_fence = (
        (F.coalesce(F.length("value"), F.lit(0)) == 0)
        & (F.size("headers") == 1)
        & (F.col("tag") == n.FENCE_TAG.decode())
    )
    refused = quarantine.where(
        (F.col("refused_topic") == f"{prefix}op") & F.col("element").isNull()
    )
    refused = refused.select(
        "queue", F.col("refused_offset").alias("source_offset"), F.lit(True).alias("refused")
    ).distinct()
    return (
        ops.withColumn("stored_ms", F.unix_millis("stored_at"))
        .withColumn("watermark_ms", F.max("stored_ms").over(queue))
        .where(~F.coalesce(is_fence, F.lit(False)))
        .transform(_with_body)
        .withColumn("well_formed", F.coalesce(_well_formed(), F.lit(False)))
        .join(refused, ["queue", "source_offset"], "left")
    )


def ends(ops: DataFrame) -> DataFrame:
    """Return queue, offset of the half, and struct `end`, ordered by where it stands."""
    applied = ops.where(F.col("well_formed") & F.col("refused").isNull())
    end = F.struct(
        F.col("source_offset").alias("op_offset"),
        "position",
        "state",
        "group",
        F.col("transaction_id").alias("id"),
        F.coalesce("from_check", F.lit(False)).alias("from_check"),
        F.col("actor").isNotNull().alias("by_operator"),
        "stored_ms",
        "watermark_ms",
    )
    return (
        elements(_narrow(applied))
        .where(~_malformed_element())
        .select("queue", "offset", end.alias("end"))
    )


def unreadable(ops: DataFrame) -> DataFrame:
    """Return queue and op_offset of ops that the resolver can read and Spark can't.

    Their bodies are no JSON to Spark, and yet they are not in quarantine as a whole. What they end
    is not known here.
    """
    return ops.where(
        F.col("state").isNull()  # first what needs no parsing
        & F.col("refused").isNull()
        & ~_is_no_op()
        & F.col("body").isNull()
    ).select("queue", F.col("source_offset").alias("op_offset"))


def malformed(ops: DataFrame) -> DataFrame:
    """Return the malformed records and elements: queue, op_offset, element, needed.

    Whether a value is JSON can't be told here as exactly as the resolver tells it. So a value that
    is none here need not be in quarantine (`needed`), if it looks like an object at all; and one
    whose fields are well-formed may be there if writing it again gives another text. It may be
    there too if the name of a header may be none.
    """
    refused = F.coalesce("refused", F.lit(False))
    doubtful = F.when(F.col("well_formed") & refused, ~_clean_json() | has_doubtful_name())
    whole = ops.where(~F.col("well_formed") | doubtful).select(
        "queue",
        F.col("source_offset").alias("op_offset"),
        F.lit(WHOLE).alias("element"),
        (~F.col("well_formed") & (F.col("body").isNotNull() | _is_no_op())).alias("needed"),
    )
    applied = ops.where(F.col("well_formed") & F.col("refused").isNull())
    single = (
        elements(_narrow(applied))
        .where(_malformed_element())
        .select(
            "queue",
            F.col("source_offset").alias("op_offset"),
            F.col("position").alias("element"),
            F.lit(True).alias("needed"),
        )
    )
    return whole.union(single)


def _is_no_op() -> Column:
    """Whether it is malformed whatever a parser makes of it."""
    is_object = F.coalesce(_text().rlike(r"\A[ \t\r\n]*\{"), F.lit(False))
    return ~F.col("tag").eqNullSafe(n.OP_TAG.decode()) | ~is_object


def _with_body(ops: DataFrame) -> DataFrame:
    return ops.withColumn("body", F.try_parse_json(_text()))


def _text() -> Column:
    """Return the value as text; null where it is no UTF-8."""
    return F.try_validate_utf8(F.col("value").cast("string"))


def _well_formed() -> Column:
    count = F.size("offsets")
    return (
        (F.col("tag") == n.OP_TAG.decode())
        & F.col("state").isin(*_STATES)
        & F.col("group").rlike(_LEGAL_GROUP)
        & (count == F.size("transaction_ids"))
        & count.between(1, n.MAX_OP_ELEMENTS)
        & _absent_or("from_check", "BOOLEAN")
        & _absent_or("remark", "STRING", "VOID")
        & _absent_or("actor", "STRING", "VOID")
        & F.coalesce(F.length("actor") > 0, F.lit(True))
    )


def _absent_or(name: str, *types: str) -> Column:
    return F.coalesce(json_type(name).isin(*types), F.lit(True))


def _clean_json() -> Column:
    """Whether the value is what writing its JSON again gives, blanks between tokens aside."""
    tokens = F.regexp_replace(F.col("value").cast("string"), _BLANKS, "$1")
    return F.length(F.to_json("body")) == F.length(tokens)


def _malformed_element() -> Column:
    well_formed = (F.col("offset") >= 0) & F.length("transaction_id").between(
        1, n.MAX_TRANSACTION_ID_LENGTH
    )
    return ~F.coalesce(well_formed, F.lit(False))


def _narrow(ops: DataFrame) -> DataFrame:
    """Leave out what would be copied for each element."""
    return ops.drop("body", "value", "key", "headers", "remark")
