"""What a rule is, and what rules are written with."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..settings import Settings
from .report import Invariant


@dataclass(frozen=True)
class Rule:
    """An invariant of one row: whether it is `checked` there, and in `detail` what violates it."""

    invariant: Invariant
    checked: Column
    detail: Column


def is_auditable() -> Column:
    """Whether there is one outcome, and all that it can be compared with has landed and is kept."""
    op_offset = F.col("outcome.op_offset")
    op_is_there = op_offset.isNull() | op_offset.between(F.col("op_first"), F.col("op_last"))
    return F.col("outcome").isNotNull() & F.col("is_transaction") & yes(op_is_there)


def half_should_be_there() -> Column:
    """Whether the table has halves before and behind it, so it would have this one."""
    return yes(F.col("offset").between(F.col("half_first"), F.col("half_last")))


def half_is_missing(settings: Settings) -> Column:
    """Whether there is no half, and can't have been one that is yet to land or was deleted."""
    told_ms = F.least("outcome.stored_ms", *map(_first_written, ("checks", "discards", "refusals")))
    offset = F.col("offset")
    impossible = never_stored("half", offset, told_ms, settings) | _would_be_kept(
        "half", offset, F.col("outcome.stored_ms"), settings
    )
    return F.col("half").isNull() & (half_should_be_there() | impossible)


def contradicts_ops(settings: Settings) -> Column:
    """Whether the outcome names an op that is not there, and no later audit will find it either.

    An earlier end is valid, or there can't be such an op, or it needs none.
    """
    said, first = F.col("outcome"), F.col("first")
    op_offset, ended_ms = said["op_offset"], said["ended_ms"]
    impossible = (
        (first["op_offset"] < op_offset)
        | never_stored("op", op_offset, ended_ms, settings)
        | _would_be_kept("op", op_offset, ended_ms, settings)
        | (said["outcome"] == "DISCARD")
    )
    return yes(F.col("is_transaction") & op_offset.isNotNull() & ~is_auditable() & impossible)


def never_stored(what: str, offset: Column, told_ms: Column, settings: Settings) -> Column:
    """Whether no half or op (`what`) of the queue stands there, of which was told at a time.

    Kafka has none there (with the topics), or one that was stored long after that has landed, and
    stands before it.
    """
    landed = yes(told_ms + settings.broker_clock_skew_ms < F.col(f"{what}_last_ms"))
    beyond = yes(offset >= F.col(f"{what}_end"))
    is_behind = F.coalesce(offset > F.col(f"{what}_last"), F.lit(True))
    return yes(offset < 0) | yes(is_behind & (landed | beyond))


def _would_be_kept(what: str, offset: Column, stored_ms: Column, settings: Settings) -> Column:
    """Whether it stands before all that is kept, and yet was stored long after the first of it."""
    kept_since = F.col(f"{what}_first_ms") + settings.broker_clock_skew_ms
    return yes((offset < F.col(f"{what}_first")) & (stored_ms > kept_since))


def _first_written(events: str) -> Column:
    return F.array_min(F.transform(events, lambda one: one["written_ms"]))


def first_wrong(*cases: tuple[Column, Column | str]) -> Column:
    """Return what the first case says that is true; null if none is."""
    said = [F.when(yes(case), F.lit(what)) for case, what in cases]
    return F.coalesce(*said, F.lit(None).cast("string"))


def yes(condition: Column) -> Column:
    """Take null for no."""
    return F.coalesce(condition, F.lit(False))


def op_of(offset: Column) -> Column:
    """Return where an op of the row's queue stands, in words."""
    return F.concat_ws(":", F.col("queue").cast("string"), offset.cast("string"))
