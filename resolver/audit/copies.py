"""Checks, discarded messages and refused halves: each is a half once more, bit for bit."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from ..settings import Settings
from .halves import content, headers_read
from .report import Invariant
from .rule import Rule, first_wrong, half_is_missing, yes
from .snapshot import Snapshot


def copied_halves(snapshot: Snapshot, prefix: str) -> DataFrame:
    """Return queue, offset and struct `sent`, the digests of those halves that were copied.

    `check` is that of a check, which has the transaction id in place of the key.
    """
    refused = about_halves(snapshot["quarantine"], prefix)
    copied = (
        snapshot["check"]
        .select("queue", "offset")
        .union(snapshot["discarded"].select("queue", "offset"))
        .union(refused.select("queue", F.col("refused_offset").alias("offset")))
    )
    headers = headers_read()
    sent = F.struct(
        content(headers).alias("message"), content(headers, _id_as_key()).alias("check")
    )
    return (
        snapshot["half"]
        .join(copied, ["queue", "offset"], "left_semi")
        .select("queue", "offset", sent.alias("sent"))
    )


def check_events(checks: DataFrame, prefix: str) -> DataFrame:
    """Return queue, offset and struct `check`; `to` is the group that it was sent to."""
    check = F.struct(
        F.col("checks").alias("number"),
        F.unix_millis("source_timestamp").alias("written_ms"),
        F.col("transaction_id").alias("id"),
        F.col("group"),
        F.substr("source_topic", F.lit(len(n.Names(prefix).check("")) + 1)).alias("to"),
        _content_without_ours().alias("content"),
    )
    return checks.select("queue", "offset", check.alias("check"))


def discard_events(discards: DataFrame) -> DataFrame:
    """Return queue, offset and struct `discarded`."""
    discarded = F.struct(
        "reason",
        _content_without_ours().alias("content"),
        F.unix_millis("source_timestamp").alias("written_ms"),
    )
    return discards.select("queue", "offset", discarded.alias("discarded"))


def refusal_events(quarantine: DataFrame, prefix: str) -> DataFrame:
    """Return queue, offset and struct `refusal` of each half that was refused."""
    # What the resolver has put on it begins at the last REASON: it may have one of its own.
    names = F.transform("headers", lambda header: header["key"])
    marks = F.array_position(F.reverse(names), n.REASON).cast("int")
    own = F.slice(headers_read(), F.lit(1), F.size("headers") - marks)
    refusal = F.struct(
        "reason",
        F.when(~F.col("truncated"), content(own)).alias("content"),
        F.unix_millis("source_timestamp").alias("written_ms"),
    )
    return about_halves(quarantine, prefix).select(
        "queue", F.col("refused_offset").alias("offset"), refusal.alias("refusal")
    )


def about_halves(quarantine: DataFrame, prefix: str) -> DataFrame:
    """Return the rows of quarantine that are halves."""
    return quarantine.where(F.col("refused_topic") == n.Names(prefix).half)


def copies_rule(settings: Settings) -> Rule:
    """Return the rule that what is said of a half is said of this one, and has its bits."""
    half, sent = F.col("half"), F.col("sent")
    is_copied = (F.size("checks") > 0) | (F.size("discards") > 0) | (F.size("refusals") > 0)
    is_ghost = half_is_missing(settings)

    def is_anothers(check: Column) -> Column:
        same = check["id"].eqNullSafe(half["id"]) & check["group"].eqNullSafe(half["group"])
        return ~same | ~check["to"].eqNullSafe(half["group"])

    def differs(copies: str, bits: str) -> Column:
        # A header's name that is no UTF-8 can't be seen in the tables any more.
        changed = F.exists(copies, lambda one: yes(one["content"] != sent[bits]))
        return ~half["doubtful"] & changed

    detail = first_wrong(
        (is_ghost, "checked, discarded or refused, and there is no such half"),
        (half.isNotNull() & F.exists("checks", is_anothers), "a check of another group or id"),
        (differs("checks", "check"), "a check with another body or header"),
        (differs("discards", "message"), "discarded with another key, body or header"),
        (differs("refusals", "message"), "refused with another key, body or header"),
    )
    checked = is_copied & (half.isNotNull() | is_ghost)
    return Rule(Invariant.COPIES, checked, F.when(checked, detail))


def _content_without_ours() -> Column:
    """Return the digest without the headers that the resolver added; null if it was cut."""
    headers = headers_read()
    was_cut = F.exists(headers, lambda header: header["key"] == n.TRUNCATED)
    own = F.filter(headers, lambda header: ~header["key"].isin(*sorted(n.OUTPUT_HEADERS)))
    return F.when(~was_cut, content(own))


def _id_as_key() -> Column:
    return F.col("transaction_id").cast("binary")
