"""Resumed messages: each half that names an old one in its header RESUMES."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from .halves import read
from .report import Invariant
from .rule import Rule, first_wrong

_HALF_ID = r"\A([0-9]{1,9}):([0-9]{1,18})\z"


def resumed_events(halves: DataFrame) -> DataFrame:
    """Return, by queue and offset of the old half, the half id of the one that resumes it."""
    last = F.try_element_at("headers", F.lit(-1))
    old = F.when(last["key"] == n.RESUMES, last["value"].cast("string"))
    named = read(halves.where(F.col("group").isNotNull())).select(
        old.alias("old"), F.concat_ws(":", "queue", "offset").alias("resumed")
    )
    return named.where(F.col("old").rlike(_HALF_ID)).select(
        F.regexp_extract("old", _HALF_ID, 1).cast("int").alias("queue"),
        F.regexp_extract("old", _HALF_ID, 2).cast("bigint").alias("offset"),
        "resumed",
    )


def resumed_rule() -> Rule:
    """Return the rule that a message is resumed once, and only if it was given up."""
    by, outcome = F.array_sort(F.array_distinct("resumptions")), F.col("outcome.outcome")
    checked = F.size("resumptions") > 0
    names = F.array_join(by, ", ")
    delivered = outcome.isin("COMMIT", "ROLLBACK")
    detail = first_wrong(
        (F.size(by) > 1, F.concat(F.lit("resumed more than once, by halves "), names)),
        (delivered, F.concat(F.lit("resumed by half "), names, F.lit(", and yet "), outcome)),
    )
    return Rule(Invariant.RESUMED, checked, F.when(checked, detail))
