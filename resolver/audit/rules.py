"""The rules for a transaction with all known facts: the rows to check, and the violations."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..settings import Settings
from .checks import check_max, counted, no_check_after
from .fast import may_have_lost_ops, not_twice_rule, revoked_rule
from .report import Invariant
from .resumed import resumed_rule
from .rule import (
    Rule,
    contradicts_ops,
    first_wrong,
    half_is_missing,
    is_auditable,
    names_no_op,
    op_of,
    yes,
)
from .transactions import (
    by_unreadable_op,
    decided,
    first_deadline_ms,
    fits,
    may_wait,
    refused_as_malformed,
)

_OUTCOMES = {"COMMIT": "COMMIT_MESSAGE", "UNDELIVERABLE": "COMMIT_MESSAGE"} | {
    "ROLLBACK": "ROLLBACK_MESSAGE"
}

#: The reasons for which a half may be refused, the second one by older resolvers alone.
_OF_HALVES = ("MALFORMED_HALF", "NO_PERMISSION")


def rules(settings: Settings, runs: int) -> list[Rule]:
    """Return the rules that need only the tables."""
    return [
        _one_outcome(settings, runs),
        _first_end(settings, runs),
        _operator(),
        no_check_after(runs),
        check_max(settings, runs),
        revoked_rule(settings),
        _given_up(settings),
        resumed_rule(),
        _refused_half(runs),
        not_twice_rule(),
    ]


def _one_outcome(settings: Settings, runs: int) -> Rule:
    count, first = F.size("resolutions"), F.col("first")
    told = F.array_join(F.transform("resolutions", lambda outcome: outcome["outcome"]), ", ")
    missing = (count == 0) & ~F.col("told") & first.isNotNull() & decided(first["op_offset"])
    # The overdue rule has the ends that may have waited: they may be left for later batches.
    missing &= ~may_wait(first) & ~may_have_lost_ops(runs)
    detail = first_wrong(
        (count > 1, F.concat(count.cast("string"), F.lit(" outcomes: "), told)),
        (F.col("half_rows") > 1, "its half landed more than once"),
        (F.size("ends") > F.size(_end_positions()), "an op that names it landed more than once"),
        ((count == 1) & ~F.col("is_transaction") & F.col("half").isNotNull(), _refused_outcome()),
        ((count == 1) & half_is_missing(settings), _outcome_of_nothing()),
        (missing, F.concat(F.lit("no outcome, though ended by "), _by(first))),
    )
    return Rule(Invariant.ONE_OUTCOME, F.col("half").isNotNull() | (count > 0), detail)


def _end_positions() -> Column:
    """Return each end's position once, as text: Spark would compare structs pair by pair."""
    return F.array_distinct(
        F.transform("ends", lambda end: F.concat_ws(":", end["op_offset"], end["position"]))
    )


def _refused_outcome() -> Column:
    return F.concat(F.col("outcome.outcome"), F.lit(" of a half that is refused"))


def _outcome_of_nothing() -> Column:
    return F.concat(F.col("outcome.outcome"), F.lit(" of a half that is not there"))


def _first_end(settings: Settings, runs: int) -> Rule:
    outcome, half = F.col("outcome"), F.col("half")
    is_discard = yes(outcome["outcome"] == "DISCARD")
    of_half = ("id", "group", "topic", "stored_ms")
    is_same = reduce(and_, [outcome[name].eqNullSafe(half[name]) for name in of_half])
    wrong = first_wrong(
        (names_no_op(settings), F.concat(_claimed(), F.lit(", and there is no such op"))),
        (~is_same, "the outcome has another id, group, topic or time than its half"),
        (outcome["decided_ms"].isNull(), "the outcome does not say when it was decided"),
        (is_discard, _wrong_discard(settings)),
        (~is_discard, _wrong_end()),
    )
    checked = (is_auditable() | contradicts_ops(settings)) & ~by_unreadable_op()
    checked &= ~(may_have_lost_ops(runs) & yes(outcome["source"] == "OPERATOR"))
    return Rule(Invariant.FIRST_END, checked, F.when(checked, wrong))


def _claimed() -> Column:
    """Return the outcome's claim, in words."""
    outcome = F.coalesce("outcome.outcome", F.lit("no outcome"))
    return F.concat(outcome, F.lit(" by op "), op_of(F.col("outcome.op_offset")))


def _wrong_end() -> Column:
    """Return the violation by a commit, a rollback or an undeliverable outcome."""
    outcome, first = F.col("outcome"), F.col("first")
    states = F.create_map(*[F.lit(text) for pair in _OUTCOMES.items() for text in pair])
    same = (F.try_element_at(states, outcome["outcome"]) == first["state"]) & (
        outcome["op_offset"] == first["op_offset"]
    )
    claimed = _claimed()
    too_early = F.concat(claimed, F.lit(", and the fast id was not revoked"))
    return first_wrong(
        (first.isNull() & F.col("waits"), too_early),
        (first.isNull(), F.concat(claimed, F.lit(", and no end is valid"))),
        (
            ~F.coalesce(same, F.lit(False)),
            F.concat(claimed, F.lit(", and first came "), _by(first)),
        ),
        (
            ~outcome["ended_ms"].eqNullSafe(first["stored_ms"]),
            F.concat(claimed, F.lit(" at another time")),
        ),
        (
            ~outcome["source"].eqNullSafe(_source()),
            F.concat(
                claimed,
                F.lit(", said to be of "),
                F.coalesce(outcome["source"], F.lit("nobody")),
                F.lit(", not "),
                _source(),
            ),
        ),
        (
            ~outcome["delivery"].eqNullSafe(F.when(first["delivered"], "FAST")),
            F.concat(claimed, F.lit(", said to be delivered by "), _deliverer(outcome["delivery"])),
        ),
        (
            first["delivered"] & (outcome["outcome"] != "COMMIT"),
            F.concat(claimed, F.lit(", and its producer delivered it")),
        ),
    )


def _deliverer(delivery: Column) -> Column:
    return F.when(delivery.isNull(), "the resolver").otherwise("its producer")


def _source() -> Column:
    """Return the source that the outcome must have; `_operator` judges a claimed operator."""
    first, outcome = F.col("first"), F.col("outcome")
    claims_operator = (outcome["source"] == "OPERATOR") & ~first["by_operator"]
    return (
        F.when(outcome["outcome"] == "UNDELIVERABLE", "DELIVERY")
        .when(first["by_operator"] | claims_operator, "OPERATOR")
        .when(first["from_check"], "CHECK")
        .otherwise("END")
    )


def _wrong_discard(settings: Settings) -> Column:
    """Return the violation by a discard.

    The last check's time was over, at the earliest, after the first check's time and an interval
    for each check. An operator who asks ends the time of one check, never of the last. A group that
    is back does too, of every second check at most. A half is given up when the watermark is past
    that moment. An end that had been read with an earlier watermark was applied.
    """
    outcome, first = F.col("outcome"), F.col("first")
    asks = F.size(F.filter("ends", lambda end: _asks(end) & fits(end)))
    may_be_back = not settings.count_unanswered_checks
    full = F.ceil(outcome["checks"] / 2) if may_be_back else outcome["checks"]
    waited = F.greatest(F.lit(1), full - asks).cast("long")
    over = first_deadline_ms(settings) + waited * F.lit(settings.transaction_check_interval_ms)
    used_up = counted(settings) >= settings.transaction_check_max
    expired = outcome["decided_ms"] - outcome["stored_ms"] > settings.file_reserved_ms
    by_op = outcome["op_offset"].isNotNull() | ~outcome["source"].eqNullSafe("LIMIT")
    return first_wrong(
        (by_op, "DISCARD, and yet by an op"),
        (outcome["delivery"].isNotNull(), "DISCARD, and yet delivered by its producer"),
        (outcome["checks"] < 1, "DISCARD without a check"),
        (~used_up & ~expired, "DISCARD, and no limit was reached"),
        (
            first["watermark_ms"] <= over,
            F.concat(F.lit("DISCARD, though ended in time by "), _by(first)),
        ),
    )


def _asks(end: Column) -> Column:
    """Whether an end is an operator's question."""
    return end["by_operator"] & (end["state"] == "UNKNOWN")


def _operator() -> Rule:
    outcome = F.col("outcome")
    checked = is_auditable() & (outcome["source"] == "OPERATOR") & ~by_unreadable_op()
    has_op = F.exists(
        "ends",
        lambda end: (end["op_offset"] == outcome["op_offset"]) & end["by_operator"] & fits(end),
    )
    violation = F.concat(
        F.lit("op "), op_of(outcome["op_offset"]), F.lit(" names no operator, or not this")
    )
    return Rule(Invariant.OPERATOR, yes(checked), F.when(yes(checked & ~has_op), violation))


def _given_up(settings: Settings) -> Rule:
    outcome, count = F.col("outcome"), F.size("discards")
    checked = yes(outcome["outcome"].isin("DISCARD", "UNDELIVERABLE")) & is_auditable()
    reason = F.get("discards", F.lit(0))["reason"]
    other = (outcome["outcome"] == "UNDELIVERABLE") != (reason == "UNDELIVERABLE")
    is_missing = (
        (count == 0) & outcome["passed"] & decided(F.coalesce(outcome["op_offset"], F.lit(-1)))
    )
    detail = first_wrong(
        (is_missing, F.concat(outcome["outcome"], F.lit(", not in discarded"))),
        (count > 1, F.concat(outcome["outcome"], F.lit(", more than once in discarded"))),
        (other, F.concat(outcome["outcome"], F.lit(", in discarded as "), reason)),
    )
    ended = outcome["outcome"].isin("COMMIT", "ROLLBACK") & (count > 0)
    without = F.col("half").isNotNull() & (F.size("resolutions") == 0) & (count > 0)
    alone = first_wrong(
        (ended, F.concat(outcome["outcome"], F.lit(", and in discarded"))),
        (without & _is_complete(settings), "given up, and no outcome"),
    )
    applies = checked | yes(ended) | without
    return Rule(Invariant.GIVEN_UP, applies, F.when(checked, detail).otherwise(alone))


def _is_complete(settings: Settings) -> Column:
    """Whether all records that were written together with the discards have landed."""
    written_ms = F.array_max(F.transform("discards", lambda discard: discard["written_ms"]))
    by_clock = written_ms + settings.broker_clock_skew_ms < F.col("complete_ms")
    return ~F.col("told") & by_clock


def _refused_half(runs: int) -> Rule:
    """Malformed halves are in quarantine, no other half as malformed, and no half as an end."""
    count, half = F.size("refusals"), F.col("half")
    as_malformed = refused_as_malformed()
    reasons = F.transform(
        "refusals", lambda refusal: F.coalesce(refusal["reason"], F.lit("nothing"))
    )
    other = F.get(F.filter(reasons, lambda reason: ~reason.isin(*_OF_HALVES)), F.lit(0))
    detail = first_wrong(
        (
            half["malformed"] & (count == 0) & decided(F.lit(-1)),
            "MALFORMED_HALF, not in quarantine",
        ),
        (count > runs, F.concat(count.cast("string"), F.lit(" times in quarantine"))),
        (half["malformed"] & (count > 0) & ~as_malformed, "MALFORMED_HALF, refused as another"),
        (
            ~half["malformed"] & ~half["doubtful"] & as_malformed,
            "refused as malformed, and is not",
        ),
        (other.isNotNull(), F.concat(F.lit("a half, refused as "), other)),
    )
    return Rule(Invariant.QUARANTINE, yes(half["malformed"]) | (count > 0), detail)


def _by(end: Column) -> Column:
    return F.concat(end["state"], F.lit(" in op "), op_of(end["op_offset"]))
