"""The order of messages: those of one queue stand in each partition in the order of their ops."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .delivered import own_messages
from .report import Invariant
from .rule import Rule, first_wrong, op_of
from .transactions import is_fast


def with_op_before(rows: DataFrame) -> DataFrame:
    """Add `op_before`: the greatest op of the messages of the row's queue before its message.

    Only messages of the same partition of a real topic count. Messages that a producer delivered
    by one fast id are compared with each other alone. Null if no message is before it.
    """
    message = _message()
    # A row without a message is alone: all such rows of a queue would be one task's.
    alone = F.when(message.isNull(), F.col("offset"))
    by_producer = F.when(F.col("outcome.delivery").isNotNull(), F.col("half.fast_id"))
    before = (
        Window.partitionBy("queue", message["topic"], message["partition"], by_producer, alone)
        .orderBy(message["offset"])
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return rows.withColumn("op_before", F.max(_op()).over(before))


def order_rule(runs: int) -> Rule:
    """Return the rule that no message stands behind a message of its queue with a later op.

    After a rebuild an early op may end a half that was refused before: then nothing is judged.
    """
    checked = F.coalesce(_op().isNotNull() & F.col("op_before").isNotNull(), F.lit(False))
    checked &= F.lit(runs == 1)
    is_behind = checked & (_op() < F.col("op_before"))
    text = F.concat(F.lit("ended by op "), op_of(_op()), F.lit(", behind a message of op "))
    detail = first_wrong((is_behind, F.concat(text, op_of(F.col("op_before")))))
    return Rule(Invariant.IN_ORDER, checked, detail)


def _message() -> Column:
    """Return the row's message; null if there is none, or several."""
    own = own_messages()
    return F.when(F.size(own) == 1, F.get(own, F.lit(0)))


def _op() -> Column:
    """Return the op that ended a delivered message; null if that is not certain.

    It is null, too, for one that its producer might have delivered: its end may have waited.
    """
    outcome, first = F.col("outcome"), F.col("first.op_offset")
    is_certain = (outcome["outcome"] == "COMMIT") & (outcome["op_offset"] == first)
    is_certain &= ~is_fast() | outcome["delivery"].isNotNull()
    return F.when(is_certain & _message().isNotNull(), first)
