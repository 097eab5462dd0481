"""The rules for messages that their producers deliver themselves."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..settings import Settings
from .report import Invariant
from .rule import Rule, first_written, first_wrong, op_of, yes
from .transactions import is_fast


def twice_events(quarantine: DataFrame) -> DataFrame:
    """Return queue, offset and `twice`: each op that is refused as DELIVERED_TWICE."""
    delivered_twice = quarantine.where(F.col("reason") == "DELIVERED_TWICE")
    return delivered_twice.select("queue", "offset", F.col("refused_offset").alias("twice"))


def not_twice_rule() -> Rule:
    """Return the rule that no producer delivers a message that another end has decided.

    Only producers can keep to it: when the resolver refuses the op, the message is already out.
    """
    by = F.array_sort(F.array_distinct("twices"))
    is_out = F.size(by) > 0
    ops = F.array_join(F.transform(by, op_of), ", ")
    detail = first_wrong((is_out, F.concat(F.lit("delivered by its producer too, in op "), ops)))
    has_been = F.exists("ends", lambda end: end["delivered"])
    return Rule(Invariant.NOT_TWICE, is_out | has_been, detail)


def revoked_rule(settings: Settings) -> Rule:
    """Return the rule that no half with a fast id is asked about, or given up, too early.

    It is too early while its producer may still deliver it. The revocation may be yet to land, or
    be kept no longer: the resolver forgets one that nothing needs after `file_reserved_hours`.
    """
    written = [first_written(events) for events in ("checks", "discards")]
    by_ms = F.least(*written) + settings.broker_clock_skew_ms
    freed, half = F.col("freed"), F.col("half")
    is_kept = (F.col("op_first") == 0) | (
        half["stored_ms"] > F.col("op_first_ms") + settings.file_reserved_ms
    )
    is_missing = freed.isNull() & (F.col("op_ms") > by_ms) & is_kept
    checked = F.col("is_transaction") & is_fast() & by_ms.isNotNull()
    violation = F.concat(
        F.when(F.size("checks") > 0, "asked about").otherwise("given up"),
        F.lit(" before its fast id was revoked: "),
        half["fast_id"],
    )
    wrong = first_wrong((is_missing | (freed["stored_ms"] > by_ms), violation))
    return Rule(Invariant.REVOKED, yes(checked), F.when(yes(checked), wrong))


def may_have_lost_ops(runs: int) -> Column:
    """Whether ops about the half may have been deleted before they were read.

    Then an operator decides. After a rebuild older revocations do not count either.
    """
    is_older = (F.col("op_first") > 0) & (F.col("half.stored_ms") <= F.col("op_first_ms"))
    return is_fast() & (F.lit(runs > 1) | yes(is_older))
