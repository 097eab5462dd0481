"""The join: all facts about a transaction in one row, by queue and offset of its half."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..settings import Settings

#: Events of which a transaction may have several, and the list that they become.
LISTS = {
    "resolution": "resolutions",
    "end": "ends",
    "check": "checks",
    "discarded": "discards",
    "resumed": "resumptions",
    "refusal": "refusals",
    "unknown": "unknowns",
    "twice": "twices",
    "message": "messages",
}
_HALF = (
    "struct<id:string,group:string,topic:string,stored_ms:bigint,immunity_seconds:bigint,"
    "malformed:boolean,doubtful:boolean,erased:boolean,real_qid:int,content:string,fast_id:string,"
    "revoked:struct<op_offset:bigint,stored_ms:bigint>>"
)
_EVENTS = {
    "half": _HALF,
    "resolution": (
        "struct<outcome:string,source:string,op_offset:bigint,id:string,group:string,topic:string,"
        "checks:int,answered:int,stored_ms:bigint,ended_ms:bigint,decided_ms:bigint,"
        "written_ms:bigint,by_unreadable:boolean,passed:boolean,delivery:string>"
    ),
    "end": (
        "struct<op_offset:bigint,position:int,state:string,group:string,id:string,"
        "from_check:boolean,by_operator:boolean,delivered:boolean,gives_up:boolean,"
        "stored_ms:bigint,watermark_ms:bigint>"
    ),
    "sent": "struct<message:string,check:string,discarded:string>",
    "check": (
        "struct<number:int,written_ms:bigint,id:string,group:string,to:string,content:string>"
    ),
    "discarded": "struct<reason:string,content:string,written_ms:bigint>",
    "resumed": "string",
    "refusal": "struct<reason:string,content:string,written_ms:bigint>",
    "unknown": "struct<op_offset:bigint,position:int>",
    "twice": "bigint",
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

    An event is queue, offset and one more column of `_EVENTS`. A row has these columns:

    - `half`: null if there is none. `half_rows`: how many rows of it landed.
    - `sent`: the digests of a half that was copied.
    - `resolutions` and the other `LISTS`: all other events.
    - `told`: whether an outcome was read that has not landed.
    - The queue's columns.
    - `is_transaction`: whether the half may end.
    - `outcome`: the one resolution; null if there is none, or more than one.
    - `freed`: op_offset and stored_ms of the record from which on the producer of a half with a
      fast id can't deliver it any more.
    - `kept`: the first valid end without a message. `waits`: whether it counts from `freed` on.
    - `first`: the first valid end: `kept`, or one whose producer has delivered the message.
      `counts_at`: the offset of the op from which on it counts.
    - `unlanded`: whether the record that lets the outcome's end count may be yet to land.
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
        .transform(lambda rows: _with_first_end(rows, settings))
    )


def is_fast() -> Column:
    """Whether the half's producer may deliver the message itself."""
    return F.col("half.fast_id").isNotNull()


def may_wait(end: Column) -> Column:
    """Whether an end counts only when the half's producer can't deliver the message any more."""
    is_rollback = (end["state"] == "ROLLBACK_MESSAGE") & ~end["from_check"] & ~end["by_operator"]
    return is_fast() & ~end["delivered"] & ~is_rollback


def fits(end: Column) -> Column:
    """Whether an end names the group and the transaction id of its half."""
    half = F.col("half")
    return (end["group"] == half["group"]) & (end["id"] == half["id"])


def came_early(end: Column) -> Column:
    """Whether an end was stored before its half, and refused because there was no half."""

    def is_this(unknown: Column) -> Column:
        return (unknown["op_offset"] == end["op_offset"]) & (unknown["position"] == end["position"])

    is_before = end["stored_ms"] <= F.col("half.stored_ms")
    return F.coalesce(is_before & F.exists("unknowns", is_this), F.lit(False))


def refused_as_malformed() -> Column:
    """Whether the half is in quarantine as malformed."""
    return F.exists("refusals", lambda refusal: refusal["reason"] == "MALFORMED_HALF")


def is_late(end: Column, settings: Settings) -> Column:
    """Whether an end came too late for a half with an immunity of its own."""
    immunity = immunity_ms(settings)
    latest = F.col("half.stored_ms") + F.greatest(immunity, F.lit(settings.transaction_timeout_ms))
    plain = ~end["from_check"] & ~end["by_operator"] & ~end["delivered"]
    return plain & (immunity > 0) & (end["stored_ms"] > latest)


def immunity_ms(settings: Settings) -> Column:
    """Return a half's own immunity in ms; 0 if it has none."""
    # Limit the seconds before multiplying: a header may say 10^18 seconds.
    seconds = F.least(F.col("half.immunity_seconds"), F.lit(settings.file_reserved_ms // 1_000))
    return seconds * 1_000


def first_deadline_ms(settings: Settings) -> Column:
    """Return when a half is due for its first check, in ms."""
    own, timeout = immunity_ms(settings), F.lit(settings.transaction_timeout_ms)
    return F.col("half.stored_ms") + F.when(own > 0, own).otherwise(timeout)


def by_unreadable_op() -> Column:
    """Whether Spark can't read the outcome's op: then the outcome can't be judged."""
    return F.coalesce("outcome.by_unreadable", F.lit(False))


def decided(op_offset: Column) -> Column:
    """Whether the half and the op were decided, and all records of that decision have landed."""
    halves = F.col("offset") <= F.col("decided_half")
    return F.coalesce(halves & (op_offset <= F.col("decided_op")), F.lit(False))


def _aligned(event: DataFrame) -> DataFrame:
    """Return an event with all columns; columns that are not its own are null."""
    columns = set(event.columns)
    # SQL's text takes one call of Spark's JVM. Columns would take hundreds.
    own = [
        f"CAST({f'`{name}`' if name in columns else 'NULL'} AS {kind}) AS `{name}`"
        for name, kind in _EVENTS.items()
    ]
    return event.selectExpr("queue", "offset", *own)


def _is_transaction(runs: int) -> Column:
    """Whether there is a half that may end: well-formed, and not refused as NO_PERMISSION.

    Resolvers before 27 November 2026 refused halves that the policy does not permit. Newer ones let
    such a half pend. After a rebuild a half that was refused may be taken: then it has an outcome.
    """
    refused = F.exists("refusals", lambda refusal: refusal["reason"] == "NO_PERMISSION")
    doubtful = F.coalesce("half.doubtful", F.lit(False)) & refused_as_malformed()
    well_formed = F.col("half").isNotNull() & ~F.coalesce("half.malformed", F.lit(False))
    well_formed &= ~doubtful
    return well_formed & (~refused | (F.lit(runs > 1) & (F.size("resolutions") > 0)))


def _with_first_end(rows: DataFrame, settings: Settings) -> DataFrame:
    """Add `freed` and the columns after it.

    While a producer may still deliver its message, no other end counts, except its own rollback.
    The first such end is kept until the producer can't any more.
    """
    kept, delivered, freed = F.col("kept"), F.col("delivered"), F.col("freed.op_offset")
    is_early = freed.isNull() | (kept["op_offset"] < freed)
    kept_at = F.when(F.col("waits"), freed).otherwise(kept["op_offset"])
    first = F.when(delivered["op_offset"] == F.col("counts_at"), delivered)
    by_clock = F.col("outcome.written_ms") + settings.broker_clock_skew_ms < F.col("op_ms")
    return (
        rows.withColumn("freed", F.when(is_fast(), _freed()))
        .withColumn("kept", _first_valid_end(settings, delivered=False))
        .withColumn("delivered", _first_valid_end(settings, delivered=True))
        .withColumn("waits", F.coalesce(may_wait(kept) & is_early, F.lit(False)))
        .withColumn("counts_at", F.least(kept_at, delivered["op_offset"]))
        .withColumn("first", first.when(F.col("counts_at").isNotNull(), kept))
        .withColumn(
            "unlanded",
            is_fast()
            & F.coalesce(freed, F.col("counts_at")).isNull()
            & ~F.coalesce(by_clock, F.lit(False)),
        )
    )


def _freed() -> Column:
    """Return the revocation of the half's fast id, or where its producer gave fast commits up."""
    given_up = F.get(F.filter("ends", lambda end: end["gives_up"] & fits(end)), F.lit(0))
    own = F.struct(given_up["op_offset"], given_up["stored_ms"])
    return F.array_min(F.array("half.revoked", F.when(given_up.isNotNull(), own)))


def _first_valid_end(settings: Settings, delivered: bool) -> Column:
    """Return the first valid end with a message that its producer `delivered`, or without one."""

    def is_valid(end: Column) -> Column:
        ends_it = (end["state"] != "UNKNOWN") & ~came_early(end)
        is_kind = (end["delivered"] & is_fast()) if delivered else ~end["delivered"]
        return fits(end) & ends_it & is_kind & ~is_late(end, settings)

    first = F.get(F.filter("ends", is_valid), F.lit(0))
    return F.when(F.col("is_transaction"), first)
