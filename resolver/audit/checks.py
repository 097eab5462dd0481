"""The rules for the checks of a transaction: none after its outcome, and not too many."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..settings import Settings
from .report import Invariant
from .rule import Rule, first_wrong, is_auditable, yes
from .transactions import fits


def no_check_after(runs: int) -> Rule:
    """Return the rule that no check comes after the outcome.

    An outcome says how many checks were sent before it: a check with a higher number came after.
    A rebuild counts from the beginning again. Then only a check that was also written later came
    after.
    """
    outcome = F.col("outcome")

    def is_after(check: Column) -> Column:
        later = check["written_ms"] > outcome["written_ms"]
        return (check["number"] > outcome["checks"]) & (F.lit(runs == 1) | later)

    after = F.get(F.filter("checks", is_after), F.lit(0))
    checked = outcome.isNotNull() & (F.size("checks") > 0)
    violation = F.concat(
        F.lit("check "),
        after["number"].cast("string"),
        F.concat(F.lit(" after "), outcome["outcome"], F.lit(", which knows of ")),
        outcome["checks"].cast("string"),
    )
    return Rule(Invariant.NO_CHECK_AFTER, checked, F.when(checked & after.isNotNull(), violation))


def check_max(settings: Settings, runs: int) -> Rule:
    """Return the rule on the number of checks.

    No more checks are counted than the limit. No more are answered than sent. No check is sent
    twice.
    """
    outcome, most = F.col("outcome"), settings.transaction_check_max
    numbers = F.transform("checks", lambda check: check["number"])
    repeated = F.size(numbers) > F.size(F.array_distinct(numbers)) * runs
    sent = F.array_max(numbers) if settings.count_unanswered_checks else F.lit(None).cast("int")
    # An op that Spark can't read may have answered a check.
    unreadable = F.coalesce("unreadable", F.lit(0))
    by_ends = F.size(F.filter("ends", _may_have_answered)) + unreadable
    is_told = is_auditable() & _answers_have_landed(settings)
    unsaid = outcome.isNotNull() & (outcome["checks"].isNull() | outcome["answered"].isNull())
    detail = first_wrong(
        (unsaid, "the outcome does not say how many checks were sent, or answered"),
        (F.greatest(counted(settings), sent) > most, f"more than {most} counted checks"),
        (outcome["answered"] > outcome["checks"], "more checks answered than sent"),
        (is_told & (outcome["answered"] > by_ends), "more checks answered than there are answers"),
        (repeated, "a check was sent twice"),
    )
    if runs == 1 and not settings.count_unanswered_checks:
        detail = F.coalesce(
            detail, F.when(_asked_on(settings), f"asked on after more than {most} answers")
        )
    return Rule(Invariant.CHECK_MAX, outcome.isNotNull() | (F.size("checks") > 0), detail)


def _asked_on(settings: Settings) -> Column:
    """Whether checks were sent although enough had been answered, with an outcome or without.

    Checks and answers are counted by turns. Each must be stored so long after the event before it
    that no clock can be at fault. So fewer are counted than there were. One check may have been
    decided before the last answer was read.
    """
    answers = F.filter("ends", lambda end: end["from_check"] & fits(end))
    times = F.concat(
        F.transform("checks", lambda check: _event(check["written_ms"], is_answer=False)),
        F.transform(answers, lambda answer: _event(answer["stored_ms"], is_answer=True)),
    )

    def next_turn(turn: Column, event: Column) -> Column:
        after = event["ms"] > turn["ms"] + settings.broker_clock_skew_ms
        beyond = turn["answered"] > settings.transaction_check_max
        return (
            F.when(~after | (event["is_answer"] != turn["is_asked"]), turn)
            .when(
                event["is_answer"],
                _turn(turn["answered"] + 1, False, event["ms"], turn["beyond"]),
            )
            .otherwise(_turn(turn["answered"], True, event["ms"], beyond))
        )

    begin = _turn(F.lit(0), False, F.lit(-(1 << 60)).cast("bigint"), F.lit(False))
    return F.aggregate(F.array_sort(times), begin, next_turn, lambda turn: turn["beyond"])


def _event(ms: Column, is_answer: bool) -> Column:
    return F.struct(ms.alias("ms"), F.lit(is_answer).alias("is_answer"))


def _turn(answered: Column, is_asked: bool, ms: Column, beyond: Column) -> Column:
    return F.struct(
        answered.alias("answered"),
        F.lit(is_asked).alias("is_asked"),
        ms.alias("ms"),
        beyond.alias("beyond"),
    )


def _may_have_answered(end: Column) -> Column:
    """Whether an end may have answered a check before the outcome.

    An answer up to the outcome's op may. If the transaction was given up, an `UNKNOWN` may.
    """
    not_after = F.coalesce(
        end["op_offset"] <= F.col("outcome.op_offset"), end["state"] == "UNKNOWN"
    )
    return end["from_check"] & fits(end) & not_after


def _answers_have_landed(settings: Settings) -> Column:
    """Whether all ops that were read before the outcome was written have landed."""
    outcome = F.col("outcome")
    written_by = outcome["written_ms"] + settings.broker_clock_skew_ms
    return outcome["op_offset"].isNotNull() | yes(F.col("op_ms") > written_by)


def counted(settings: Settings) -> Column:
    """Return how many of the checks before the outcome count, by the settings."""
    return F.col("outcome.checks" if settings.count_unanswered_checks else "outcome.answered")
