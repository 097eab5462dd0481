"""The rules for a transaction with all that is known of it: what is checked, and what violates."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..settings import Settings
from .checks import check_max, counted, no_check_after
from .report import Invariant
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
    refused_as_malformed,
)

_OUTCOMES = {"COMMIT": "COMMIT_MESSAGE", "UNDELIVERABLE": "COMMIT_MESSAGE"} | {
    "ROLLBACK": "ROLLBACK_MESSAGE"
}

#: Why a half may be refused.
_OF_HALVES = ("MALFORMED_HALF", "NO_PERMISSION")


def rules(settings: Settings, runs: int) -> list[Rule]:
    """Return the rules that need only the tables."""
    return [
        _one_outcome(settings),
        _first_end(settings),
        _operator(),
        no_check_after(runs),
        check_max(settings, runs),
        _given_up(settings),
        _refused_half(runs),
    ]


def _one_outcome(settings: Settings) -> Rule:
    found, first = F.size("resolutions"), F.col("first")
    told = F.array_join(F.transform("resolutions", lambda said: said["outcome"]), ", ")
    missing = (found == 0) & ~F.col("told") & first.isNotNull() & decided(first["op_offset"])
    detail = first_wrong(
        (found > 1, F.concat(found.cast("string"), F.lit(" outcomes: "), told)),
        (F.col("half_rows") > 1, "its half landed more than once"),
        (F.size("ends") > F.size(_places()), "an op that names it landed more than once"),
        ((found == 1) & ~F.col("is_transaction") & F.col("half").isNotNull(), _refused_outcome()),
        ((found == 1) & half_is_missing(settings), _outcome_of_nothing()),
        (missing, F.concat(F.lit("no outcome, though ended by "), _by(first))),
    )
    return Rule(Invariant.ONE_OUTCOME, F.col("half").isNotNull() | (found > 0), detail)


def _places() -> Column:
    """Return where its ends stand, each place once; as text, as structs Spark compares in pairs."""
    return F.array_distinct(
        F.transform("ends", lambda end: F.concat_ws(":", end["op_offset"], end["position"]))
    )


def _refused_outcome() -> Column:
    return F.concat(F.col("outcome.outcome"), F.lit(" of a half that is refused"))


def _outcome_of_nothing() -> Column:
    return F.concat(F.col("outcome.outcome"), F.lit(" of a half that is not there"))


def _first_end(settings: Settings) -> Rule:
    said, half = F.col("outcome"), F.col("half")
    is_discard = yes(said["outcome"] == "DISCARD")
    of_half = ("id", "group", "topic", "stored_ms")
    is_same = reduce(and_, [said[name].eqNullSafe(half[name]) for name in of_half])
    wrong = first_wrong(
        (names_no_op(settings), F.concat(_claimed(), F.lit(", and there is no such op"))),
        (~is_same, "the outcome has another id, group, topic or time than its half"),
        (said["decided_ms"].isNull(), "the outcome does not say when it was decided"),
        (is_discard, _wrong_discard(settings)),
        (~is_discard, _wrong_end()),
    )
    checked = (is_auditable() | contradicts_ops(settings)) & ~by_unreadable_op()
    return Rule(Invariant.FIRST_END, checked, F.when(checked, wrong))


def _claimed() -> Column:
    """Return what the outcome says, in words."""
    outcome = F.coalesce("outcome.outcome", F.lit("no outcome"))
    return F.concat(outcome, F.lit(" by op "), op_of(F.col("outcome.op_offset")))


def _wrong_end() -> Column:
    """Say what is wrong with a commit, a rollback or an undeliverable one."""
    said, first = F.col("outcome"), F.col("first")
    states = F.create_map(*[F.lit(text) for pair in _OUTCOMES.items() for text in pair])
    same = (F.try_element_at(states, said["outcome"]) == first["state"]) & (
        said["op_offset"] == first["op_offset"]
    )
    claimed = _claimed()
    return first_wrong(
        (first.isNull(), F.concat(claimed, F.lit(", and no end is valid"))),
        (
            ~F.coalesce(same, F.lit(False)),
            F.concat(claimed, F.lit(", and first came "), _by(first)),
        ),
        (
            ~said["ended_ms"].eqNullSafe(first["stored_ms"]),
            F.concat(claimed, F.lit(" at another time")),
        ),
        (
            ~said["source"].eqNullSafe(_source()),
            F.concat(
                claimed,
                F.lit(", said to be of "),
                F.coalesce(said["source"], F.lit("nobody")),
                F.lit(", not "),
                _source(),
            ),
        ),
    )


def _source() -> Column:
    """Return who ended it, as far as that is not for the rule of operators to say."""
    first, said = F.col("first"), F.col("outcome")
    claims_operator = (said["source"] == "OPERATOR") & ~first["by_operator"]
    return (
        F.when(said["outcome"] == "UNDELIVERABLE", "DELIVERY")
        .when(first["by_operator"] | claims_operator, "OPERATOR")
        .when(first["from_check"], "CHECK")
        .otherwise("END")
    )


def _wrong_discard(settings: Settings) -> Column:
    """Say what is wrong with a discard.

    Its last check's time was over at the earliest when the first one's time and an interval for
    each had passed. It is given up when the watermark is behind that: an end that had been read
    with a watermark before it was applied.
    """
    said, first = F.col("outcome"), F.col("first")
    intervals = said["checks"].cast("long") * F.lit(settings.transaction_check_interval_ms)
    over = first_deadline_ms(settings) + intervals
    used_up = counted(settings) >= settings.transaction_check_max
    expired = said["decided_ms"] - said["stored_ms"] > settings.file_reserved_ms
    by_op = said["op_offset"].isNotNull() | ~said["source"].eqNullSafe("LIMIT")
    return first_wrong(
        (by_op, "DISCARD, and yet by an op"),
        (said["checks"] < 1, "DISCARD without a check"),
        (~used_up & ~expired, "DISCARD, and no limit was reached"),
        (
            first["watermark_ms"] <= over,
            F.concat(F.lit("DISCARD, though ended in time by "), _by(first)),
        ),
    )


def _operator() -> Rule:
    said = F.col("outcome")
    checked = is_auditable() & (said["source"] == "OPERATOR") & ~by_unreadable_op()
    found = F.exists(
        "ends",
        lambda end: (end["op_offset"] == said["op_offset"]) & end["by_operator"] & fits(end),
    )
    what = F.concat(
        F.lit("op "), op_of(said["op_offset"]), F.lit(" names no operator, or not this")
    )
    return Rule(Invariant.OPERATOR, yes(checked), F.when(yes(checked & ~found), what))


def _given_up(settings: Settings) -> Rule:
    said, found = F.col("outcome"), F.size("discards")
    checked = yes(said["outcome"].isin("DISCARD", "UNDELIVERABLE")) & is_auditable()
    reason = F.get("discards", F.lit(0))["reason"]
    other = (said["outcome"] == "UNDELIVERABLE") != (reason == "UNDELIVERABLE")
    is_missing = (found == 0) & said["passed"] & decided(F.coalesce(said["op_offset"], F.lit(-1)))
    detail = first_wrong(
        (is_missing, F.concat(said["outcome"], F.lit(", not in discarded"))),
        (found > 1, F.concat(said["outcome"], F.lit(", more than once in discarded"))),
        (other, F.concat(said["outcome"], F.lit(", in discarded as "), reason)),
    )
    ended = said["outcome"].isin("COMMIT", "ROLLBACK") & (found > 0)
    without = F.col("half").isNotNull() & (F.size("resolutions") == 0) & (found > 0)
    alone = first_wrong(
        (ended, F.concat(said["outcome"], F.lit(", and in discarded"))),
        (without & _is_complete(settings), "given up, and no outcome"),
    )
    applies = checked | yes(ended) | without
    return Rule(Invariant.GIVEN_UP, applies, F.when(checked, detail).otherwise(alone))


def _is_complete(settings: Settings) -> Column:
    """Whether all has landed that was written together with what is in discarded."""
    written_ms = F.array_max(F.transform("discards", lambda one: one["written_ms"]))
    by_clock = written_ms + settings.broker_clock_skew_ms < F.col("complete_ms")
    return ~F.col("told") & by_clock


def _refused_half(runs: int) -> Rule:
    """Malformed halves are in quarantine, no others as malformed, and none as an end."""
    found, half = F.size("refusals"), F.col("half")
    as_malformed = refused_as_malformed()
    reasons = F.transform("refusals", lambda one: F.coalesce(one["reason"], F.lit("nothing")))
    other = F.get(F.filter(reasons, lambda one: ~one.isin(*_OF_HALVES)), F.lit(0))
    detail = first_wrong(
        (
            half["malformed"] & (found == 0) & decided(F.lit(-1)),
            "MALFORMED_HALF, not in quarantine",
        ),
        (found > runs, F.concat(found.cast("string"), F.lit(" times in quarantine"))),
        (half["malformed"] & (found > 0) & ~as_malformed, "MALFORMED_HALF, refused as another"),
        (
            ~half["malformed"] & ~half["doubtful"] & as_malformed,
            "refused as malformed, and is not",
        ),
        (other.isNotNull(), F.concat(F.lit("a half, refused as "), other)),
    )
    return Rule(Invariant.QUARANTINE, yes(half["malformed"]) | (found > 0), detail)


def _by(end: Column) -> Column:
    return F.concat(end["state"], F.lit(" in op "), op_of(end["op_offset"]))
