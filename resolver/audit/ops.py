"""Ops, as the protocol reads them: the ends they ask for, and their malformed parts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..ledger import elements
from ..ledger.op import json_type
from ..protocol import TransactionStatus
from ..protocol import names as n
from .halves import has_doubtful_name, read

_STATES = tuple(status.value for status in TransactionStatus)
_LEGAL_GROUP = rf"\A[a-zA-Z0-9._-]{{1,{n.MAX_GROUP_LENGTH}}}\z"
#: Strings, which are kept, and blanks outside strings.
_BLANKS = r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|[ \t\r\n]+'
#: Stands for the element of a record that is refused as a whole.
WHOLE = -1


def read_ops(ops: DataFrame, quarantine: DataFrame, prefix: str) -> DataFrame:
    """Return ops without fences and revocations, each with further columns.

    - `watermark_ms`: the watermark of the op's queue when the op had been read.
    - `well_formed`: whether the op's fields are well-formed.
    - `refused`: whether the op is in quarantine as a whole; null if it is not.
    """
    queue = Window.partitionBy("queue").orderBy("source_offset")
    is_empty = F.coalesce(F.length("value"), F.lit(0)) == 0
    is_fence = is_empty & (F.col("tag") == n.FENCE_TAG.decode())
    is_resolvers = is_fence | (F.col("tag") == n.REVOKED_TAG.decode())
    is_resolvers &= F.size("headers") == 1
    refused = quarantine.where(
        (F.col("refused_topic") == f"{prefix}op") & F.col("element").isNull()
    )
    refused = refused.select(
        "queue", F.col("refused_offset").alias("source_offset"), F.lit(True).alias("refused")
    ).distinct()
    return (
        ops.withColumn("stored_ms", F.unix_millis("stored_at"))
        .withColumn("watermark_ms", F.max("stored_ms").over(queue))
        .where(~F.coalesce(is_resolvers, F.lit(False)))
        .transform(_with_body)
        .withColumn("well_formed", F.coalesce(_well_formed(), F.lit(False)))
        .join(refused, ["queue", "source_offset"], "left")
    )


def ends(ops: DataFrame) -> DataFrame:
    """Return queue, offset of the half, and struct `end`, which sorts by its place."""
    applied = ops.where(F.col("well_formed") & F.col("refused").isNull())
    end = F.struct(
        F.col("source_offset").alias("op_offset"),
        "position",
        "state",
        "group",
        F.col("transaction_id").alias("id"),
        F.coalesce("from_check", F.lit(False)).alias("from_check"),
        F.col("actor").isNotNull().alias("by_operator"),
        F.coalesce("delivered", F.lit(False)).alias("delivered"),
        (~F.coalesce("fast", F.lit(True))).alias("gives_up"),
        "stored_ms",
        "watermark_ms",
    )
    return (
        elements(_narrow(applied))
        .where(~_malformed_element())
        .select("queue", "offset", end.alias("end"))
    )


def revocations(ops: DataFrame) -> DataFrame:
    """Return queue, fast_id and struct `revoked`: its first revocation, in table `op`.

    Only the checkpoint's secret tells a revocation of the resolver from a forged one. So all count.
    """
    revoked = F.struct(
        F.col("source_offset").alias("op_offset"), F.unix_millis("stored_at").alias("stored_ms")
    )
    by_fast_id = ops.where(F.col("fast_id").isNotNull()).groupBy("queue", "fast_id")
    return by_fast_id.agg(F.min(revoked).alias("revoked"))


def unreadable(ops: DataFrame) -> DataFrame:
    """Return queue and op_offset of ops that the resolver can read and Spark can't.

    Their bodies are no JSON to Spark, and yet they are not in quarantine as a whole. The audit does
    not know which halves they end.
    """
    return ops.where(
        F.col("state").isNull()  # first the conditions that need no parsing
        & F.col("refused").isNull()
        & ~_is_no_op()
        & F.col("body").isNull()
    ).select("queue", F.col("source_offset").alias("op_offset"))


def malformed(ops: DataFrame) -> DataFrame:
    """Return the malformed records and elements: queue, op_offset, element, needed.

    `needed` says that a record or element must be in quarantine. The audit can't tell as exactly as
    the resolver whether a value is JSON. So there are exceptions:

    - A value that is no JSON here need not be in quarantine, if it looks like an object at all.
    - A value with well-formed fields may be there, if writing its JSON again gives another text.
    - It may be there too, if the name of a header may not be UTF-8.
    """
    refused = F.coalesce("refused", F.lit(False))
    doubtful = F.when(F.col("well_formed") & refused, ~_clean_json() | has_doubtful_name())
    whole = (
        read(ops.where(~F.col("well_formed") | refused))
        .where(~F.col("well_formed") | doubtful)
        .select(
            "queue",
            F.col("source_offset").alias("op_offset"),
            F.lit(WHOLE).alias("element"),
            (~F.col("well_formed") & (F.col("body").isNotNull() | _is_no_op())).alias("needed"),
        )
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
    """Whether a record is malformed whatever a parser makes of its value."""
    is_object = F.coalesce(_text().rlike(r"\A[ \t\r\n]*\{"), F.lit(False))
    return ~F.col("tag").eqNullSafe(n.OP_TAG.decode()) | ~is_object


def _with_body(ops: DataFrame) -> DataFrame:
    return ops.withColumn("body", F.try_parse_json(_text()))


def _text() -> Column:
    """Return the value as text; null if it is no UTF-8."""
    return F.try_validate_utf8(F.col("value").cast("string"))


def _well_formed() -> Column:
    count = F.size("offsets")
    return (
        (F.col("tag") == n.OP_TAG.decode())
        & F.col("state").isin(*_STATES)
        & F.col("group").rlike(_LEGAL_GROUP)
        & (count == F.size("transaction_ids"))
        & (count.between(1, n.MAX_OP_ELEMENTS) | ((count == 0) & _may_announce()))
        & _absent_or("from_check", "BOOLEAN")
        & _absent_or("remark", "STRING", "VOID")
        & _absent_or("actor", "STRING", "VOID")
        & F.coalesce(F.length("actor") > 0, F.lit(True))
        & _absent_or("delivered", "BOOLEAN")
        & _absent_or("fast", "BOOLEAN")
        & (~F.coalesce("delivered", F.lit(False)) | _is_producers("COMMIT_MESSAGE"))
        & (F.coalesce("fast", F.lit(True)) | _is_producers("UNKNOWN"))
    )


def _is_producers(state: str) -> Column:
    """Whether an op has this state, and neither answers a check nor is an operator's."""
    decides = F.coalesce("from_check", F.lit(False)) | F.col("actor").isNotNull()
    return (F.col("state") == state) & ~decides


def _may_announce() -> Column:
    """Whether an op may be the announcement of an agent, which names no half."""
    return (F.col("state") == "UNKNOWN") & F.col("from_check")


def _absent_or(name: str, *types: str) -> Column:
    return F.coalesce(json_type(name).isin(*types), F.lit(True))


def _clean_json() -> Column:
    """Whether writing the value's JSON again gives the value, apart from blanks between tokens."""
    tokens = F.regexp_replace(F.col("value").cast("string"), _BLANKS, "$1")
    return F.length(F.to_json("body")) == F.length(tokens)


def _malformed_element() -> Column:
    well_formed = (F.col("offset") >= 0) & F.length("transaction_id").between(
        1, n.MAX_TRANSACTION_ID_LENGTH
    )
    return ~F.coalesce(well_formed, F.lit(False))


def _narrow(ops: DataFrame) -> DataFrame:
    """Leave out columns that would be copied for each element."""
    return ops.drop("body", "value", "key", "headers", "remark")
