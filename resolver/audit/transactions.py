"""The join: all that is known of a transaction in one row, by queue and offset of its half."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..settings import Settings

#: What there may be several of, and the list that it becomes.
LISTS = {
    "resolution": "resolutions",
    "end": "ends",
    "check": "checks",
    "discarded": "discards",
    "refusal": "refusals",
    "unknown": "unknowns",
    "message": "messages",
}
_HALF = (
    "struct<id:string,group:string,topic:string,stored_ms:bigint,immunity_seconds:bigint,"
    "malformed:boolean,doubtful:boolean,real_qid:int,content:string>"
)
_EVENTS = {
    "half": _HALF,
    "resolution": (
        "struct<outcome:string,source:string,op_offset:bigint,id:string,group:string,topic:string,"
        "checks:int,answered:int,stored_ms:bigint,ended_ms:bigint,decided_ms:bigint,"
        "written_ms:bigint,by_unreadable:boolean,passed:boolean>"
    ),
    "end": (
        "struct<op_offset:bigint,position:int,state:string,group:string,id:string,"
        "from_check:boolean,by_operator:boolean,stored_ms:bigint,watermark_ms:bigint>"
    ),
    "sent": "struct<message:string,check:string>",
    "check": (
        "struct<number:int,written_ms:bigint,id:string,group:string,to:string,content:string>"
    ),
    "discarded": "struct<reason:string,content:string,written_ms:bigint>",
    "refusal": "struct<reason:string,content:string,written_ms:bigint>",
    "unknown": "struct<op_offset:bigint,position:int>",
    "message": (
        "struct<topic:string,id:string,partition:int,offset:bigint,stamped_ms:bigint,"
        "content:string>"
    ),
    "told": "boolean",
}


def transactions(
    events: list[DataFrame], queues: DataFrame, settings: Settings, runs: int
) -> DataFrame:
    """Return a row per queue and offset that any of the events names.

    An event is queue, offset and one more column of `_EVENTS`. A row has `half` (null: none) and
    `half_rows` (how many landed), `sent` (digests of a half that was copied), the lists of all
    else, `told` (an outcome was read that has not landed), the queue's columns, and what the rules
    make of it: `is_transaction`, `first` (the first valid end), `outcome` (of the one resolution,
    null: none).
    """
    named = F.col("queue").isNotNull() & F.col("offset").isNotNull()
    together = reduce(DataFrame.unionAll, map(_aligned, events)).where(named)
    lists = [F.collect_list(name).alias(many) for name, many in LISTS.items()]
    half, told = F.any_value("half", F.lit(True)), F.max(F.coalesce("told", F.lit(False)))
    grouped = together.groupBy("queue", "offset").agg(
        half.alias("half"),
        F.count("half").alias("half_rows"),
        F.any_value("sent", F.lit(True)).alias("sent"),
        told.alias("told"),
        *lists,
    )
    return (
        grouped.join(F.broadcast(queues), "queue", "left")
        .withColumn("ends", F.array_sort("ends"))
        .withColumn("outcome", F.when(F.size("resolutions") == 1, F.get("resolutions", F.lit(0))))
        .withColumn("is_transaction", _is_transaction(runs))
        .withColumn("first", F.when(F.col("is_transaction"), _first_valid_end(settings)))
    )


def fits(end: Column) -> Column:
    """Whether an end names group and transaction id of its half."""
    half = F.col("half")
    return (end["group"] == half["group"]) & (end["id"] == half["id"])


def came_early(end: Column) -> Column:
    """Whether an end was stored before its half, and refused as there was none."""

    def is_this(one: Column) -> Column:
        return (one["op_offset"] == end["op_offset"]) & (one["position"] == end["position"])

    is_before = end["stored_ms"] <= F.col("half.stored_ms")
    return F.coalesce(is_before & F.exists("unknowns", is_this), F.lit(False))


def refused_as_malformed() -> Column:
    """Whether the half is in quarantine for that."""
    return F.exists("refusals", lambda refusal: refusal["reason"] == "MALFORMED_HALF")


def is_late(end: Column, settings: Settings) -> Column:
    """Whether an end came too late for a half with an immunity of its own."""
    immunity = immunity_ms(settings)
    latest = F.col("half.stored_ms") + F.greatest(immunity, F.lit(settings.transaction_timeout_ms))
    plain = ~end["from_check"] & ~end["by_operator"]
    return plain & (immunity > 0) & (end["stored_ms"] > latest)


def immunity_ms(settings: Settings) -> Column:
    """Return a half's own immunity, 0 where it has none."""
    # Compared before it is multiplied: a header may say 10^18 seconds.
    seconds = F.least(F.col("half.immunity_seconds"), F.lit(settings.file_reserved_ms // 1_000))
    return seconds * 1_000


def first_deadline_ms(settings: Settings) -> Column:
    """Return when a half is due for its first check."""
    own, timeout = immunity_ms(settings), F.lit(settings.transaction_timeout_ms)
    return F.col("half.stored_ms") + F.when(own > 0, own).otherwise(timeout)


def by_unreadable_op() -> Column:
    """Whether Spark can't read the op that the outcome is of: then it can't be judged."""
    return F.coalesce("outcome.by_unreadable", F.lit(False))


def decided(op_offset: Column) -> Column:
    """Whether all is decided of the half and of its op, and whatever that made has landed."""
    halves = F.col("offset") <= F.col("decided_half")
    return F.coalesce(halves & (op_offset <= F.col("decided_op")), F.lit(False))


def _aligned(event: DataFrame) -> DataFrame:
    """Return an event with all columns, null but for its own."""
    columns = [
        (F.col(name) if name in event.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in _EVENTS.items()
    ]
    return event.select("queue", "offset", *columns)


def _is_transaction(runs: int) -> Column:
    """Whether there is a half that may end: well-formed, and not refused for want of permission.

    After a rebuild such a half may be taken all the same: then it has an outcome.
    """
    refused = F.exists("refusals", lambda refusal: refusal["reason"] == "NO_PERMISSION")
    doubtful = F.coalesce("half.doubtful", F.lit(False)) & refused_as_malformed()
    well_formed = F.col("half").isNotNull() & ~F.coalesce("half.malformed", F.lit(False))
    well_formed &= ~doubtful
    return well_formed & (~refused | (F.lit(runs > 1) & (F.size("resolutions") > 0)))


def _first_valid_end(settings: Settings) -> Column:
    def is_valid(end: Column) -> Column:
        ends_it = (end["state"] != "UNKNOWN") & ~came_early(end)
        return fits(end) & ends_it & ~is_late(end, settings)

    return F.get(F.filter("ends", is_valid), F.lit(0))
