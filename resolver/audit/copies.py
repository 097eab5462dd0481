"""Checks, discarded messages and refused halves: each is a copy of a half, bit for bit."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from ..settings import Settings
from .halves import content, read, unless_erased
from .report import Invariant
from .rule import Rule, first_wrong, half_is_missing, yes
from .snapshot import Snapshot


def copied_halves(snapshot: Snapshot, prefix: str) -> DataFrame:
    """Return queue, offset and struct `sent`, the digests of the halves that were copied.

    In `sent`, `check` is the digest of a check: a check has the transaction id as its key, and the
    half's key as its first header. `discarded` is that of a message that was given up: it has no
    fast id.
    """
    refused = about_halves(snapshot["quarantine"], prefix)
    copied = (
        snapshot["check"]
        .select("queue", "offset")
        .union(snapshot["discarded"].select("queue", "offset"))
        .union(refused.select("queue", F.col("refused_offset").alias("offset")))
    )
    headers = F.col("headers")
    of_check = F.concat(F.array(_key_as_header()), headers)
    of_discarded = F.filter(headers, lambda header: header["key"] != n.FAST)
    sent = F.struct(
        unless_erased(content(headers)).alias("message"),
        unless_erased(content(of_check, _id_as_key())).alias("check"),
        unless_erased(content(of_discarded)).alias("discarded"),
    )
    halves = snapshot["half"].join(copied, ["queue", "offset"], "left_semi")
    return read(halves).select("queue", "offset", sent.alias("sent"))


def check_events(checks: DataFrame, prefix: str) -> DataFrame:
    """Return queue, offset and struct `check`; `to` is the group that the check was sent to."""
    check = F.struct(
        F.col("checks").alias("number"),
        F.unix_millis("source_timestamp").alias("written_ms"),
        F.col("transaction_id").alias("id"),
        F.col("group"),
        F.substr("source_topic", F.lit(len(n.Names(prefix).check("")) + 1)).alias("to"),
        _content_without_ours().alias("content"),
    )
    return read(checks).select("queue", "offset", check.alias("check"))


def discard_events(discards: DataFrame) -> DataFrame:
    """Return queue, offset and struct `discarded`."""
    discarded = F.struct(
        "reason",
        _content_without_ours().alias("content"),
        F.unix_millis("source_timestamp").alias("written_ms"),
    )
    return read(discards).select("queue", "offset", discarded.alias("discarded"))


def refusal_events(quarantine: DataFrame, prefix: str) -> DataFrame:
    """Return queue, offset and struct `refusal` of each half that was refused."""
    # The resolver's marks begin at the last REASON: the half may have a REASON of its own.
    names = F.transform("headers", lambda header: header["key"])
    marks = F.array_position(F.reverse(names), n.REASON).cast("int")
    own = F.slice("headers", F.lit(1), F.size("headers") - marks)
    refusal = F.struct(
        "reason",
        # A refusal without the marks was erased.
        F.when(~F.col("truncated") & (marks > 0), content(own)).alias("content"),
        F.unix_millis("source_timestamp").alias("written_ms"),
    )
    return read(about_halves(quarantine, prefix)).select(
        "queue", F.col("refused_offset").alias("offset"), refusal.alias("refusal")
    )


def about_halves(quarantine: DataFrame, prefix: str) -> DataFrame:
    """Return the rows of quarantine that are refused halves."""
    return quarantine.where(F.col("refused_topic") == n.Names(prefix).half)


def copies_rule(settings: Settings) -> Rule:
    """Return the rule that each copy names its own half, and has the half's bits."""
    half, sent = F.col("half"), F.col("sent")
    is_copied = (F.size("checks") > 0) | (F.size("discards") > 0) | (F.size("refusals") > 0)
    is_ghost = half_is_missing(settings)

    def is_anothers(check: Column) -> Column:
        same = check["id"].eqNullSafe(half["id"]) & check["group"].eqNullSafe(half["group"])
        return ~same | ~check["to"].eqNullSafe(half["group"])

    def differs(copies: str, bits: str) -> Column:
        # The tables don't show which names of headers are not UTF-8.
        changed = F.exists(copies, lambda copied: yes(copied["content"] != sent[bits]))
        return ~half["doubtful"] & changed

    detail = first_wrong(
        (is_ghost, "checked, discarded or refused, and there is no such half"),
        (half.isNotNull() & F.exists("checks", is_anothers), "a check of another group or id"),
        (differs("checks", "check"), "a check with another key, body or header"),
        (differs("discards", "discarded"), "discarded with another key, body or header"),
        (differs("refusals", "message"), "refused with another key, body or header"),
    )
    checked = is_copied & (half.isNotNull() | is_ghost)
    return Rule(Invariant.COPIES, checked, F.when(checked, detail))


def _content_without_ours() -> Column:
    """Return the digest without the headers that the resolver added.

    It is null for a message that was cut or erased.
    """
    was_cut = F.exists("headers", lambda header: header["key"] == n.TRUNCATED)
    own = F.filter("headers", lambda header: ~header["key"].isin(*sorted(n.OUTPUT_HEADERS)))
    return F.when(~was_cut, unless_erased(content(own)))


def _id_as_key() -> Column:
    return F.col("transaction_id").cast("binary")


def _key_as_header() -> Column:
    return F.struct(F.lit(n.KEY).alias("key"), F.col("key").alias("value"))
