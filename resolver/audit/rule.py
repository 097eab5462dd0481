"""What a rule is, and what rules are written with."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

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
