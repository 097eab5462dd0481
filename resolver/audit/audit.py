"""The audit of a ledger: compares its tables, and on request the topics, with the rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..settings import Settings
from . import delivered, overdue
from .copies import check_events, copied_halves, copies_rule, discard_events, refusal_events
from .fast import twice_events
from .halves import half_events
from .ops import ends, malformed, read_ops, revocations, unreadable
from .order import order_rule, with_op_before
from .parked import parked_events, waiting
from .refusals import compared, refusable_ends, unknown_events
from .report import Finding, Invariant, Report, Violation
from .resumed import resumed_events
from .rule import Rule, contradicts_ops, half_is_missing, is_auditable
from .rules import rules
from .small import SMALL_BYTES
from .snapshot import QueueEndOffsets, Runs, Snapshot, of_no_place, queues, runs, take_snapshot
from .topics import readable
from .transactions import by_unreadable_op, transactions

#: The settings by which ends and checks are judged, with the values that hold now.
_JUDGED_BY = (
    "transaction_timeout_ms",
    "transaction_check_interval_ms",
    "transaction_check_max",
    "count_unanswered_checks",
    "check_backoff_max_ms",
    "file_reserved_hours",
    "broker_clock_skew_ms",
    "max_checks_per_batch",
    "max_bytes_per_trigger",
    "queues",
)
#: Bytes on disk of the table of halves, for each part of the audit.
_PARTITION_BYTES = 16 << 20
_FEWEST_PARTITIONS, _MOST_PARTITIONS = 4, 64


def audit(
    spark: SparkSession,
    settings: Settings,
    folder: Path | str,
    with_topics: bool = False,
    examples: int = 10,
) -> Report:
    """Audit the tables in a folder; raises `AuditError` if that can't be done.

    Records that have not landed yet, or are kept no longer, are counted and not judged. So the
    audit may run beside the resolver. `with_topics` also compares with the real topics, and reads
    outcomes and quarantined records that have not landed. The session is the audit's own: the
    amount to audit sets the number of its shuffle tasks.
    """
    snapshot = take_snapshot(spark, folder)
    spark.conf.set("spark.sql.shuffle.partitions", str(_partitions(snapshot)))
    sources = _sources(spark, settings, snapshot, with_topics)
    all_runs = runs(snapshot)
    ops = read_ops(snapshot["op"], sources.quarantine, settings.topic_prefix)
    not_read = unreadable(ops).persist()
    try:
        of_queues = (
            not_read.groupBy("queue").agg(F.count("*").alias("unreadable")),
            overdue.passed(snapshot, all_runs, settings),
        )
        by_queue = queues(spark, snapshot, all_runs, sources.end_offsets, *of_queues)
        landed = _events(snapshot, not_read, settings, all_runs, with_topics)
        parked = waiting(snapshot, all_runs, with_topics)
        events = [*landed, parked_events(parked), ends(ops), *sources.events]
        rows = transactions(events, by_queue, settings, all_runs.count)
        judged = _judge(rows, snapshot, sources, settings, all_runs.count)
        about_ops = _about_ops(sources.quarantine, not_read, settings)
        refused = compared(
            judged.refusable(), malformed(ops), about_ops, by_queue, settings, all_runs.count
        )
        beside = {
            "parked": parked.count(),
            "unreadable_ops": not_read.count(),
            "rows_of_no_place": of_no_place(snapshot, settings.topic_prefix),
        }
        return judged.report(refused, snapshot, settings, examples, beside)
    finally:
        not_read.unpersist()


def _partitions(snapshot: Snapshot) -> int:
    """Return in how many parts to audit: each part costs as much as some thousand halves."""
    plan = snapshot["half"]._jdf.queryExecution().optimizedPlan()
    size = int(plan.stats().sizeInBytes())
    if size <= SMALL_BYTES:
        return 1
    return min(_FEWEST_PARTITIONS + size // _PARTITION_BYTES, _MOST_PARTITIONS)


@dataclass(frozen=True)
class _Sources:
    """The sources beside landed halves, ops and outcomes.

    `kept` and `end_offsets` are None without the topics.
    """

    events: list[DataFrame]
    quarantine: DataFrame
    kept: DataFrame | None
    end_offsets: QueueEndOffsets | None


def _sources(
    spark: SparkSession, settings: Settings, snapshot: Snapshot, with_topics: bool
) -> _Sources:
    quarantine = snapshot["quarantine"]
    if not with_topics:
        return _Sources(_refusals(quarantine, settings), quarantine, None, None)
    # Take the messages first: the outcomes that are read after them include each message's.
    named = delivered.real_topics(snapshot, settings.topic_prefix)
    ranges = readable(settings, named, named & delivered.committed_topics(snapshot))
    unlanded, refused = delivered.unlanded(spark, settings, snapshot)
    end_offsets = delivered.end_offsets(settings)
    quarantine = quarantine.unionByName(refused)
    events = [*_refusals(quarantine, settings), *unlanded]
    if not ranges:
        return _Sources(events, quarantine, spark.createDataFrame([], delivered.KEPT), end_offsets)
    messages = delivered.messages(spark, settings, ranges)
    kept = delivered.kept(spark, settings, ranges, messages, snapshot)
    return _Sources([*events, messages], quarantine, kept, end_offsets)


def _refusals(quarantine: DataFrame, settings: Settings) -> list[DataFrame]:
    of_halves = refusal_events(quarantine, settings.topic_prefix)
    return [of_halves, unknown_events(quarantine), twice_events(quarantine)]


def _events(
    snapshot: Snapshot, not_read: DataFrame, settings: Settings, all_runs: Runs, with_topics: bool
) -> list[DataFrame]:
    """Return the landed events, as `transactions` takes them; `not_read` has unreadable ops."""
    prefix = settings.topic_prefix
    outcome = F.struct(
        "outcome",
        "source",
        "op_offset",
        F.col("transaction_id").alias("id"),
        "group",
        "topic",
        "checks",
        "answered",
        F.unix_millis("stored_at").alias("stored_ms"),
        F.unix_millis("ended_at").alias("ended_ms"),
        F.unix_millis("decided_at").alias("decided_ms"),
        F.unix_millis("source_timestamp").alias("written_ms"),
        "by_unreadable",
        (F.lit(with_topics) | all_runs.is_passed()).alias("passed"),
        "delivery",
    )
    outcomes = snapshot["resolution"].join(
        F.broadcast(not_read.withColumn("by_unreadable", F.lit(True))),
        ["queue", "op_offset"],
        "left",
    )
    return [
        half_events(
            snapshot["half"], revocations(snapshot["op"]), prefix, with_content=with_topics
        ),
        copied_halves(snapshot, prefix),
        outcomes.select("queue", "offset", outcome.alias("resolution")),
        check_events(snapshot["check"], prefix),
        discard_events(snapshot["discarded"]),
        resumed_events(snapshot["half"]),
    ]


def _about_ops(quarantine: DataFrame, not_read: DataFrame, settings: Settings) -> DataFrame:
    """Return the rows of quarantine about ops, except ops whose content Spark can't read."""
    about_ops = quarantine.where(F.col("refused_topic") == f"{settings.topic_prefix}op")
    not_judged = not_read.withColumnRenamed("op_offset", "refused_offset")
    return about_ops.join(F.broadcast(not_judged), ["queue", "refused_offset"], "left_anti")


def _judge(
    rows: DataFrame, snapshot: Snapshot, sources: _Sources, settings: Settings, runs: int
) -> _JudgedRows:
    """Join the rules' further inputs, and apply all rules."""
    applied = [*rules(settings, runs), overdue.overdue_rule(settings, runs), copies_rule(settings)]
    counted = _counts(settings)
    groups = F.broadcast(overdue.groups(snapshot, settings))
    rows = rows.join(groups, F.col("half.group") == F.col("asked_group"), "left")
    if sources.kept is not None:
        rows = rows.join(F.broadcast(sources.kept), F.col("half.topic") == F.col("topic"), "left")
        rows = with_op_before(rows)
        applied += [*delivered.delivery_rules(), order_rule(runs)]
        counted |= delivered.delivery_counts()
    return _JudgedRows(rows, applied, counted, settings, runs)


class _JudgedRows:
    """The rows of transactions, judged in one pass; few rows are kept if little is wrong."""

    def __init__(
        self,
        rows: DataFrame,
        applied: list[Rule],
        counted: dict[str, Column],
        settings: Settings,
        runs: int,
    ) -> None:
        self._applied, self._counted = applied, list(counted)
        checked = [F.count_if(rule.checked).alias(f"rule{i}") for i, rule in enumerate(applied)]
        counts = [F.count_if(condition).alias(name) for name, condition in counted.items()]
        self._parts = (
            rows.withColumn("violations", _violated(applied))
            .withColumn("refusable", refusable_ends(settings, runs))
            .withColumn("found", _part_to_keep())
            .withColumn("part", F.spark_partition_id())
            .groupBy("part")
            .agg(F.collect_list("found").alias("found"), *checked, *counts)
            .persist()
        )

    def refusable(self) -> DataFrame:
        """Return the ends that have to be, or may be, in quarantine."""
        return self._parts.select(F.inline("found")).select("queue", F.inline("refusable"))

    def report(
        self,
        refused: DataFrame,
        snapshot: Snapshot,
        settings: Settings,
        examples: int,
        beside: dict[str, int],
    ) -> Report:
        """Count violations, and collect the first examples of each invariant."""
        refused = refused.persist()
        try:
            sums = self._sums()
            wrong = _first(self._violations(refused), examples)
            checked = self._checked(sums)
            checked[Invariant.QUARANTINE] += refused.where("checked").count()
        finally:
            self._parts.unpersist()
            refused.unpersist()
        return Report(
            findings=tuple(
                _finding(invariant, checked[invariant], wrong.get(invariant, []))
                for invariant in checked
            ),
            counts={name: sums[name] for name in self._counted} | beside,
            undeliverable=_undeliverable(snapshot, examples),
            versions=snapshot.versions,
            settings={name: getattr(settings, name) for name in _JUDGED_BY},
        )

    def _violations(self, refused: DataFrame) -> DataFrame:
        ids = ("transaction_id", "half_offset")
        own = self._parts.select(F.inline("found")).select(F.inline("violations"), *ids)
        name = F.lit(Invariant.QUARANTINE.value).alias("invariant")
        others = refused.where(F.col("detail").isNotNull()).select(name, "detail", *ids)
        return own.unionByName(others)

    def _sums(self) -> dict[str, int]:
        names = [name for name in self._parts.columns if name not in ("part", "found")]
        sums = self._parts.agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names])
        return sums.collect()[0].asDict()

    def _checked(self, sums: dict[str, int]) -> dict[Invariant, int]:
        checked: dict[Invariant, int] = {}
        for number, rule in enumerate(self._applied):
            checked[rule.invariant] = checked.get(rule.invariant, 0) + sums[f"rule{number}"]
        return checked


def _violated(applied: list[Rule]) -> Column:
    """Return the violations of rules in a row."""
    all_rules = F.array(
        *[
            F.struct(F.lit(rule.invariant.value).alias("invariant"), rule.detail.alias("detail"))
            for rule in applied
        ]
    )
    return F.filter(all_rules, lambda violation: violation["detail"].isNotNull())


def _part_to_keep() -> Column:
    """Return the part of a row to be kept; null if there is none."""
    kept_part = F.struct(
        "queue",
        F.coalesce("half.id", "outcome.id").alias("transaction_id"),
        F.concat_ws(":", "queue", "offset").alias("half_offset"),
        "violations",
        "refusable",
    )
    return F.when((F.size("violations") > 0) | (F.size("refusable") > 0), kept_part)


def _counts(settings: Settings) -> dict[str, Column]:
    """Return the conditions by which rows are counted beside the rules."""
    outcome_count, half, outcome = F.size("resolutions"), F.col("half"), F.col("outcome")
    open_ = F.col("is_transaction") & (outcome_count == 0)
    ended = F.col("told") | F.col("first").isNotNull()
    is_lost = half_is_missing(settings)  # a violation, as is a contradiction of the ops
    not_judged = (outcome_count == 1) & ~is_auditable() & ~contradicts_ops(settings)
    not_judged &= (F.col("is_transaction") | half.isNull()) & ~is_lost
    gone = (F.col("offset") < F.col("half_first")) | (outcome["op_offset"] < F.col("op_first"))
    gone = F.coalesce(gone, F.lit(False))
    return {
        "halves": half.isNotNull(),
        "outcomes": outcome_count > 0,
        "erased_messages": half["erased"],
        "refused_halves": half.isNotNull() & ~F.col("is_transaction"),
        "pending": open_ & ~ended,
        "ended_and_not_landed_yet": open_ & ended,
        "outcomes_landed_before_half_or_op": not_judged & ~gone,
        "outcomes_of_halves_or_ops_kept_no_longer": not_judged & gone,
        "outcomes_of_unreadable_ops": by_unreadable_op(),
    }


def _undeliverable(snapshot: Snapshot, examples: int) -> dict[str, int]:
    """Return the number of undeliverable messages for each of the most frequent errors."""
    rows = (
        snapshot["discarded"]
        .where(F.col("reason") == "UNDELIVERABLE")
        .groupBy(F.coalesce("error", F.lit("no error was said")).alias("error"))
        .agg(F.count("*").alias("messages"))
        .orderBy(F.desc("messages"), "error")
        .limit(max(1, examples))
        .collect()  # bounded by the number of examples
    )
    return {row.error: row.messages for row in rows}


def _first(violations: DataFrame, examples: int) -> dict[Invariant, list[tuple[int, Violation]]]:
    """Return the first violations by invariant, each with the number of all violations."""
    alike = Window.partitionBy("invariant")
    rows = (
        violations.withColumn("found", F.count("*").over(alike))
        .withColumn("place", F.row_number().over(alike.orderBy("half_offset", "detail")))
        .where(F.col("place") <= max(1, examples))
        .orderBy("invariant", "place")
        .collect()  # bounded by the number of examples
    )
    wrong: dict[Invariant, list[tuple[int, Violation]]] = {}
    for row in rows:
        violation = Violation(row.transaction_id, row.half_offset, row.detail)
        wrong.setdefault(Invariant(row.invariant), []).append((row.found, violation))
    return wrong


def _finding(invariant: Invariant, checked: int, wrong: list[tuple[int, Violation]]) -> Finding:
    violations = wrong[0][0] if wrong else 0
    return Finding(invariant, checked, violations, tuple(violation for _, violation in wrong))
