"""A rule, and the conditions that rules are written with."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..settings import Settings
from .report import Invariant


@dataclass(frozen=True)
class Rule:
    """An invariant of one row: whether it is `checked` there, and the violation in `detail`."""

    invariant: Invariant
    checked: Column
    detail: Column


def is_auditable() -> Column:
    """Whether there is one outcome, and its half and ops have landed and are kept."""
    op_offset = F.col("outcome.op_offset")
    op_is_there = op_offset.isNull() | op_offset.between(F.col("op_first"), F.col("op_last"))
    is_there = F.col("is_transaction") & yes(op_is_there) & ~F.col("unlanded")
    return F.col("outcome").isNotNull() & is_there


def half_should_be_there() -> Column:
    """Whether the table has halves before and behind this half, so it would have this half too."""
    return yes(F.col("offset").between(F.col("half_first"), F.col("half_last")))


def half_is_missing(settings: Settings) -> Column:
    """Whether the half is missing, and neither a later landing nor a deletion can explain it."""
    written = map(first_written, ("checks", "discards", "refusals"))
    told_ms = F.least("outcome.stored_ms", "outcome.written_ms", *written)
    offset = F.col("offset")
    impossible = never_stored("half", offset, told_ms, settings) | _would_be_kept(
        "half", offset, F.col("outcome.stored_ms"), settings
    )
    return F.col("half").isNull() & (half_should_be_there() | impossible)


def contradicts_ops(settings: Settings) -> Column:
    """Whether the outcome names an op that is not there, and that no later audit will find.

    That is so if an earlier end is valid, if no such op can exist, or if the outcome needs no op.
    """
    outcome, first, half = F.col("outcome"), F.col("first"), F.col("half")
    # An end that was refused before its half was stored is not valid. The refusal may be yet to
    # land.
    is_later = (first["op_offset"] < outcome["op_offset"]) & (
        first["stored_ms"] > half["stored_ms"]
    )
    wrong = is_later | (outcome["outcome"] == "DISCARD")
    is_by_op = F.col("is_transaction") & outcome["op_offset"].isNotNull() & ~is_auditable()
    return yes(is_by_op & wrong) | names_no_op(settings)


def names_no_op(settings: Settings) -> Column:
    """Whether the op that the outcome names can't exist; its half exists, or did."""
    outcome = F.col("outcome")
    op_offset, told_ms = outcome["op_offset"], F.least(outcome["ended_ms"], outcome["written_ms"])
    impossible = never_stored("op", op_offset, told_ms, settings) | _would_be_kept(
        "op", op_offset, outcome["ended_ms"], settings
    )
    is_judged = F.col("is_transaction") | F.col("half").isNull()
    return yes(is_judged & op_offset.isNotNull() & impossible)


def never_stored(kind: str, offset: Column, told_ms: Column, settings: Settings) -> Column:
    """Whether the half or op (`kind`) at an offset, named at `told_ms`, was never stored there.

    Kafka has no record at the offset (known with the topics). Or a record before the offset, stored
    long after `told_ms`, has landed.
    """
    landed = yes(told_ms + settings.broker_clock_skew_ms < F.col(f"{kind}_last_ms"))
    is_behind = F.coalesce(offset > F.col(f"{kind}_last"), F.lit(True))
    is_impossible = (offset < 0) | (F.col("queue") < 0)
    return yes(is_impossible) | yes(is_behind & (landed | is_not_stored(kind, offset)))


def is_not_stored(kind: str, offset: Column) -> Column:
    """Whether Kafka had no such half or op after the tables were read; false without topics."""
    return yes(offset >= F.col(f"{kind}_end"))


def _would_be_kept(kind: str, offset: Column, stored_ms: Column, settings: Settings) -> Column:
    """Whether an offset is below all kept ones, and yet was stored long after the first kept."""
    kept_since = F.col(f"{kind}_first_ms") + settings.broker_clock_skew_ms
    return yes((offset < F.col(f"{kind}_first")) & (stored_ms > kept_since))


def first_written(events: str) -> Column:
    """Return when the first of some events was written, in ms; null without any."""
    return F.array_min(F.transform(events, lambda event: event["written_ms"]))


def first_wrong(*cases: tuple[Column, Column | str]) -> Column:
    """Return the text of the first case that is true; null if no case is true."""
    texts = [F.when(yes(case), F.lit(text)) for case, text in cases]
    return F.coalesce(*texts, F.lit(None).cast("string"))


def yes(condition: Column) -> Column:
    """Return the condition, with null taken for no."""
    return F.coalesce(condition, F.lit(False))


def op_of(offset: Column) -> Column:
    """Return an op of the row's queue as `queue:offset`."""
    return F.concat_ws(":", F.col("queue").cast("string"), offset.cast("string"))
