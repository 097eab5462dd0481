"""Checks in time: each overdue half was checked, and no half that had ended in time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..protocol import names as n
from ..settings import Settings
from .fast import may_have_lost_ops
from .report import Invariant
from .rule import Rule, first_wrong, is_auditable, op_of, yes
from .snapshot import Runs, Snapshot, punctual
from .transactions import first_deadline_ms, is_fast, may_wait

#: More than a batch of land may take, in ms.
_LANDING_MS = 60_000
#: Most open halves of a queue that is judged. A step looks at twice as many pending halves at once;
#: if there are more, the order of their checks is loose.
_MOST_OPEN = 32_768
#: Bytes that are added for a record and for each of its headers: more than they have.
_OVERHEAD = 128


def passed(snapshot: Snapshot, runs: Runs, settings: Settings) -> DataFrame:
    """Return by queue `passed_half` and `passed_ms`: halves due up to there were handled.

    A half is handled by a check or a discard. A batch that passes over a due half handles other
    halves instead, in the order in which they are due. It handles at least a group's fair `share`
    of the halves that a batch may handle. Compare the checks and discards after a batch with the
    sum of the later batches' shares. If the checks and discards are fewer, one later batch had room
    for every half due by then.
    """
    slack = longest_wait_ms(settings) + settings.broker_clock_skew_ms
    later = Window.partitionBy("queue").orderBy(F.desc("at_ms"))
    # A batch's own discards are counted with those of later batches: an error on the safe side.
    batches = F.count("half").over(later) - 1
    had_room = batches * F.col("share") > F.sum("handled").over(later)
    # While the batch's clock is far ahead, checks are put off.
    is_prompt = F.col("now_ms") - F.col("op_ms") <= slack
    return (
        _batches(snapshot, runs)
        .unionByName(_checks(snapshot, settings), allowMissingColumns=True)
        .join(F.broadcast(_shares(snapshot, settings)), "queue")
        .withColumn("had_room", had_room)
        .where(F.col("had_room") & is_prompt & F.lit(_has_caught_up(snapshot, slack)))
        .groupBy("queue")
        .agg(F.max("half").alias("passed_half"), F.max("op_ms").alias("passed_ms"))
    )


def groups(snapshot: Snapshot, settings: Settings) -> DataFrame:
    """Return by group `asked_since_ms`, when its first check was written: it has a topic since."""
    prefix = n.Names(settings.topic_prefix).check("")
    return (
        snapshot["check"]
        .groupBy(F.substr("source_topic", F.lit(len(prefix) + 1)).alias("asked_group"))
        .agg(F.min(F.unix_millis("source_timestamp")).alias("asked_since_ms"))
    )


def overdue_rule(settings: Settings, runs: int) -> Rule:
    """Return the rule; the row has its group's `asked_since_ms`.

    An end of a half with a fast id may wait until the fast id is revoked. Then the end is due.
    """
    outcome, first, deadline = F.col("outcome"), F.col("first"), first_deadline_ms(settings)
    has_outcome = (F.size("resolutions") > 0) | F.col("told")
    is_open = F.col("is_transaction") & ~has_outcome & (first.isNull() | may_wait(first))
    is_passed = (F.col("offset") <= F.col("passed_half")) & (_due(settings) < F.col("passed_ms"))
    is_passed &= ~is_fast() | (F.col("freed").isNotNull() & ~may_have_lost_ops(runs))
    sent = F.size("checks").cast("string")
    # In a batch, ends come before checks. No check is sent before the watermark is past the
    # deadline. The watermark was not past it when this end had been read.
    in_time = (first["op_offset"] == outcome["op_offset"]) & (first["watermark_ms"] <= deadline)
    asked = yes(is_auditable() & (outcome["checks"] > 0))
    detail = first_wrong(
        (
            is_open & is_passed,
            F.concat(F.lit("overdue and passed over: no outcome, and checks sent: "), sent),
        ),
        (
            asked & in_time,
            F.concat(F.lit("asked about, though ended in time by op "), op_of(first["op_offset"])),
        ),
    )
    return Rule(Invariant.OVERDUE, yes(is_open) | asked, detail)


def longest_wait_ms(settings: Settings) -> int:
    """Return the longest time between two checks of a half, in ms."""
    interval = settings.transaction_check_interval_ms
    if settings.count_unanswered_checks:
        return interval
    return max(interval, settings.check_backoff_max_ms)


def _has_caught_up(snapshot: Snapshot, slack_ms: int) -> bool:
    """Whether ops land soon after they are stored: until then checks may be farther behind.

    If there are more records than a batch takes, land reads the same share of each partition.
    """
    (latest,) = snapshot["op"].agg(F.max(F.unix_millis("stored_at"))).collect()[0]
    return latest is not None and snapshot.ops_landed_ms - latest <= slack_ms + _LANDING_MS


def _due(settings: Settings) -> Column:
    """Return when an open half had to be checked, or given up, at the latest.

    A check that can't be written because its topic does not exist yet is left out, and counts as
    sent. So a group's halves are due again when the group's first check was written. If the group
    has no check, its halves are to be given up. A half with a fast id is due once it is revoked.
    """
    given_up = F.col("half.stored_ms") + settings.file_reserved_ms
    last = F.array_max(F.transform("checks", lambda check: check["written_ms"]))
    group_since = F.coalesce("asked_since_ms", given_up)
    since = F.greatest(first_deadline_ms(settings), last, group_since, F.col("freed.stored_ms"))
    of_end = F.greatest(F.col("freed.stored_ms"), F.col("first.stored_ms"))
    since = F.when(F.col("first").isNull(), since).otherwise(of_end)
    return since + longest_wait_ms(settings) + settings.broker_clock_skew_ms


def _shares(snapshot: Snapshot, settings: Settings) -> DataFrame:
    """Return by queue `share`: the least number of checks that a batch sends for one group.

    A batch sends fewer only if fewer are due.
    """
    most = F.lit(max(1, settings.max_checks_per_batch // settings.queues))
    of_bytes = F.floor(F.lit(settings.max_bytes_per_trigger // settings.queues) / F.col("largest"))
    halves = (
        snapshot["half"]
        .groupBy("queue", "group")
        .agg(F.count("*").alias("halves"), F.max(_at_most_bytes()).alias("largest"))
        .groupBy("queue")
        .agg(
            F.sum("halves").alias("halves"),
            F.count("*").alias("groups"),
            F.max("largest").alias("largest"),
        )
    )
    outcomes = snapshot["resolution"].groupBy("queue").agg(F.count("*").alias("outcomes"))
    share = F.floor(F.least(most, of_bytes) / F.col("groups"))
    share = F.greatest(F.lit(1), share).alias("share")
    return (
        halves.join(outcomes, "queue")
        .where(F.col("halves") - F.col("outcomes") <= _MOST_OPEN)
        .select("queue", share)
    )


def _at_most_bytes() -> Column:
    """Return the bytes that the resolver may count for a half, or more."""
    headers = F.transform(
        F.coalesce("headers", F.array()),
        lambda header: _bytes(header["key"]) + _bytes(header["value"]) + _OVERHEAD,
    )
    size = F.aggregate(headers, F.lit(_OVERHEAD), lambda total, header_size: total + header_size)
    return size + _bytes(F.col("key")) + _bytes(F.col("value"))


def _bytes(value: Column) -> Column:
    return F.coalesce(F.octet_length(value), F.lit(0))


def _batches(snapshot: Snapshot, runs: Runs) -> DataFrame:
    """Return the batches of the last checkpoint that decided anything of a queue.

    All outcomes of these batches have landed, and all checks with them.
    """
    last = runs.queries[-1] if runs.queries else ""
    return (
        punctual(snapshot)
        .where(runs.is_passed() & (F.col("query_id") == last))
        .groupBy("queue", "batch_id")
        .agg(
            F.max(F.unix_millis("source_timestamp")).alias("at_ms"),
            F.max("offset").alias("half"),
            F.max(F.unix_millis("ended_at")).alias("op_ms"),
            F.max(F.unix_millis("decided_at")).alias("now_ms"),
            F.count_if(F.col("outcome") == "DISCARD").alias("handled"),
        )
        .drop("batch_id")
    )


def _checks(snapshot: Snapshot, settings: Settings) -> DataFrame:
    # Another broker's clock has stamped the check; this clock may be behind.
    at_ms = F.unix_millis("source_timestamp") + settings.broker_clock_skew_ms
    return snapshot["check"].select(
        "queue", at_ms.alias("at_ms"), F.lit(1).cast("bigint").alias("handled")
    )
