"""The elements of ops that have to be refused, compared with those in quarantine."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..settings import Settings
from .fast import may_have_lost_ops
from .ops import WHOLE
from .rule import half_should_be_there, is_not_stored, never_stored, yes
from .transactions import by_unreadable_op, came_early, decided, fits, is_fast, is_late

#: An element that may be refused, by queue, op_offset and element.
#: `reasons` has the legal reasons (null: any). `needed` says that the element must be refused.
#: Since `forgotten_ms` the reason may be UNKNOWN_HALF, as the half is forgotten.
_REFUSABLE = (
    "struct<op_offset:bigint,element:int,reasons:array<string>,needed:boolean,"
    "forgotten_ms:bigint,transaction_id:string,half_offset:string>"
)


def refusable_ends(settings: Settings, runs: int) -> Column:
    """Return, for a transaction's row, its ends as `_REFUSABLE`, without the end that won."""
    others = F.filter("ends", lambda end: ~_has_won(end))
    # Compute `before` once for each end: `_reasons` uses it many times.
    pairs = F.transform(
        others, lambda end: F.struct(end.alias("end"), _before(end).alias("before"))
    )
    return F.transform(
        pairs, lambda pair: _refusable(pair["end"], pair["before"], settings, runs)
    ).cast(f"array<{_REFUSABLE}>")


def unknown_events(quarantine: DataFrame) -> DataFrame:
    """Return queue, offset and struct `unknown` of each end refused as UNKNOWN_HALF."""
    unknown = F.struct(
        F.col("refused_offset").alias("op_offset"), F.col("element").alias("position")
    )
    of_unknown_halves = quarantine.where(F.col("reason") == "UNKNOWN_HALF")
    return of_unknown_halves.select("queue", "offset", unknown.alias("unknown"))


def _has_won(end: Column) -> Column:
    first = F.col("first")
    is_first = (end["op_offset"] == first["op_offset"]) & (end["position"] == first["position"])
    has_won = is_first & (F.col("outcome.outcome") != "DISCARD") & ~by_unreadable_op()
    return F.coalesce(has_won, F.lit(False))


def _refusable(end: Column, before: Column, settings: Settings, runs: int) -> Column:
    reasons, needed = _reasons(end, before, settings, runs)
    outcome, last_op = F.col("outcome"), F.greatest(end["op_offset"], before["op_offset"])
    # An end that was made up before its half was stored: it fits no half that was stored later.
    half_ms = F.col("half.stored_ms") + settings.broker_clock_skew_ms
    early = came_early(end) | (~fits(end) & (end["stored_ms"] <= half_ms))
    # Its half may be refused, and the refusal may be yet to land.
    unsure = outcome.isNull() & ~decided(last_op)
    forgotten = F.when(early | unsure, F.lit(0)).otherwise(
        outcome["decided_ms"] + settings.file_reserved_ms - settings.broker_clock_skew_ms
    )
    is_decided = decided(last_op) | (
        is_not_stored("half", F.col("offset")) & yes(end["op_offset"] <= F.col("decided_op"))
    )
    is_told = needed & is_decided & ~by_unreadable_op() & ~may_have_lost_ops(runs)
    is_known = F.lit(runs == 1) & ~by_unreadable_op() & ~may_have_lost_ops(runs)
    return F.struct(
        end["op_offset"].alias("op_offset"),
        end["position"].alias("element"),
        F.when(is_known, reasons).alias("reasons"),
        F.coalesce(is_told, F.lit(False)).alias("needed"),
        forgotten.alias("forgotten_ms"),
        end["id"].alias("transaction_id"),
        F.concat_ws(":", "queue", "offset").alias("half_offset"),
    )


def _reasons(end: Column, before: Column, settings: Settings, runs: int) -> tuple[Column, Column]:
    """Return the reasons for which an end may be refused (null: any), and whether it must be."""
    is_first, asks = before.isNull(), end["state"] != "UNKNOWN"
    fault = (
        F.when(end["group"] != F.col("half.group"), "GROUP_MISMATCH")
        .when(~fits(end), "TRANSACTION_MISMATCH")
        .when(asks & is_late(end, settings), "LATE_END")
    )
    # A discard, sure or possible, has no place among the ops: an end may have come after it.
    is_discard = F.coalesce(F.col("outcome.outcome") == "DISCARD", F.lit(False))
    maybe = is_discard | F.col("outcome").isNull()
    conflict = F.when(end["delivered"], "DELIVERED_TWICE").otherwise("CONFLICTING_END")
    is_transaction = F.col("is_transaction")
    is_of_none = half_should_be_there() | is_not_stored("half", F.col("offset"))
    faulty = is_first & fault.isNotNull()
    differs = (end["state"] != before["state"]) | (end["delivered"] & ~before["delivered"])
    is_illegal = end["delivered"] & ~is_fast()
    conflicts = asks & (is_discard | is_illegal | (~is_first & differs))
    reasons = (
        F.when(~is_transaction & ~is_of_none, F.lit(None).cast("array<string>"))
        .when(~is_transaction, F.array(F.lit("UNKNOWN_HALF")))
        .when(faulty & maybe, F.array(fault, conflict))
        .when(faulty, F.array(fault))
        .when(asks & (maybe | conflicts), F.array(conflict))
        .otherwise(F.array().cast("array<string>"))
    )
    needed = (
        F.when(~is_transaction, is_of_none & F.lit(runs == 1))
        .when(faulty, ~maybe | asks)
        .otherwise(conflicts)
    )
    return reasons, F.coalesce(needed, F.lit(False))


def _before(end: Column) -> Column:
    """Return the end that was there, or kept, when an end came; null if there was none.

    For a kept end it is the end that counts in its place. An end whose producer has delivered the
    message is compared with no kept one.
    """

    def position(element: Column) -> Column:
        return F.struct(element["op_offset"], element["position"])

    first, kept = F.col("first"), F.col("kept")
    is_kept = F.col("waits") & (position(end) >= position(kept)) & ~end["delivered"]
    counts = ~end["delivered"] | first["delivered"] | (end["op_offset"] > F.col("counts_at"))
    is_after = (position(end) > position(first)) & counts
    return F.when(
        first.isNotNull() & (is_after | (is_kept & (position(end) == position(kept)))), first
    ).when(is_kept & (position(end) > position(kept)), kept)


def compared(
    refusable: DataFrame,
    malformed: DataFrame,
    quarantine: DataFrame,
    queues: DataFrame,
    settings: Settings,
    runs: int,
) -> DataFrame:
    """Return a row per element that is refusable or found in quarantine, with `detail` if wrong.

    `refusable` has queue and the fields of `_REFUSABLE`. `malformed` is the result of
    `ops.malformed`. `quarantine` has the table's rows about ops.
    """
    in_quarantine = _in_quarantine(quarantine).join(
        _wanted(refusable, malformed, queues), _ELEMENT_KEY, "full"
    )
    return in_quarantine.join(F.broadcast(queues), "queue", "left").select(
        "queue",
        F.coalesce("wanted.transaction_id", "found_id").alias("transaction_id"),
        F.coalesce("wanted.half_offset", "found_half_offset").alias("half_offset"),
        (F.col("wanted.needed") | F.col("reasons").isNotNull()).alias("checked"),
        F.concat(_detail(settings, runs), F.lit(": "), _where()).alias("detail"),
    )


_ELEMENT_KEY = ["queue", "op_offset", "element"]


def _in_quarantine(quarantine: DataFrame) -> DataFrame:
    return (
        quarantine.withColumn("op_offset", F.col("refused_offset"))
        .withColumn("element", F.coalesce("element", F.lit(WHOLE)))
        .groupBy(*_ELEMENT_KEY)
        .agg(
            F.collect_list(
                F.struct("reason", F.unix_millis("source_timestamp").alias("written_ms"))
            ).alias("reasons"),
            F.any_value("transaction_id", F.lit(True)).alias("found_id"),
            F.any_value(F.concat(F.col("queue"), F.lit(":"), F.col("offset"))).alias(
                "found_half_offset"
            ),
        )
    )


def _wanted(refusable: DataFrame, malformed: DataFrame, queues: DataFrame) -> DataFrame:
    decided = F.coalesce(F.col("op_offset") <= F.col("decided_op"), F.lit(False))
    alike = malformed.join(F.broadcast(queues), "queue", "left").select(
        "queue",
        "op_offset",
        "element",
        F.array(F.lit("MALFORMED_OP")).alias("reasons"),
        (F.col("needed") & decided).alias("needed"),
        F.lit(None).cast("bigint").alias("forgotten_ms"),
        F.lit(None).cast("string").alias("transaction_id"),
        F.lit(None).cast("string").alias("half_offset"),
    )
    wanted = F.struct("reasons", "needed", "forgotten_ms", "transaction_id", "half_offset")
    return (
        refusable.select(*alike.columns).union(alike).select(*_ELEMENT_KEY, wanted.alias("wanted"))
    )


def _detail(settings: Settings, runs: int) -> Column:
    """Return the violation in words; null if there is none."""
    wanted, count = F.col("wanted"), F.size("reasons")
    first = F.get("reasons", F.lit(0))["reason"]
    op_offset = F.col("op_offset")
    told_ms = F.array_min(F.transform("reasons", lambda refusal: refusal["written_ms"]))
    is_kept = yes(op_offset.between(F.col("op_first"), F.col("op_last")))
    is_nothing = wanted.isNull() & never_stored("op", op_offset, told_ms, settings)
    may_be = F.array_join(wanted["reasons"], " or ")

    def is_legal(refusal: Column) -> Column:
        forgotten = (refusal["reason"] == "UNKNOWN_HALF") & (
            refusal["written_ms"] > wanted["forgotten_ms"]
        )
        named = F.array_contains(wanted["reasons"], refusal["reason"])
        return wanted["reasons"].isNull() | named | F.coalesce(forgotten, F.lit(False))

    illegal = F.get(F.filter("reasons", lambda refusal: ~is_legal(refusal)), F.lit(0))["reason"]
    without_cause = wanted.isNull() | (F.size(wanted["reasons"]) == 0)
    return (
        F.when(
            F.col("reasons").isNull(),
            F.when(
                wanted["needed"],
                F.concat(F.coalesce(may_be, F.lit("refused")), F.lit(", not in quarantine")),
            ),
        )
        .when(count > runs, F.concat(count.cast("string"), F.lit(" times in quarantine")))
        .when(is_nothing, F.concat(F.lit("refused as "), first, F.lit(", and there is no such op")))
        .when(wanted.isNull() & ~is_kept, None)
        .when(wanted.isNull(), F.concat(F.lit("refused without cause as "), first))
        .when(
            illegal.isNotNull() & without_cause,
            F.concat(F.lit("refused without cause as "), illegal),
        )
        .when(illegal.isNotNull(), F.concat(F.lit("refused as "), illegal, F.lit(", not "), may_be))
    )


def _where() -> Column:
    op = F.concat(F.lit("op "), F.col("queue"), F.lit(":"), F.col("op_offset"))
    element = F.concat(F.lit("element "), F.col("element"), F.lit(" of "), op)
    return F.when(F.col("element") == WHOLE, op).otherwise(element)
