"""Refused elements of ops, each with its reason, for the quarantine topic."""

from __future__ import annotations

import numpy as np

from ...protocol import Element, QuarantineReason, Refused
from .faults import Faults
from .op_elements import Array, OpElements
from .settings import StepSettings
from .state.head import Head
from .state.settled import FAST, NONE, OUTCOME

_ERRORS = {
    QuarantineReason.UNKNOWN_HALF: "no half at offset {half} of this queue is pending or settled",
    QuarantineReason.GROUP_MISMATCH: "group {group!r} is not the group of the half at {half}",
    QuarantineReason.TRANSACTION_MISMATCH: "{id!r} is not the transaction id of the half at {half}",
    QuarantineReason.LATE_END: "stored after the immunity of the half at {half}; a check decides",
    QuarantineReason.CONFLICTING_END: "the half at {half} has ended otherwise, or may have by "
    "an op that is lost: then an operator decides",
    QuarantineReason.DELIVERED_TWICE: "the producer has delivered the message of the half at "
    "{half}, which has ended otherwise or has no FAST",
}


def reasons_to_refuse(
    state: Array,
    is_fast: Array,
    known: Array,
    on_pending: Array,
    meets_pending: Array,
    faults: Faults,
) -> dict[QuarantineReason, Array]:
    """Return which elements are refused; `known` is the code of a half that has ended.

    `meets_pending` says of which elements the half is still pending when their turn comes.
    """
    done, ends_it = known != NONE, state != NONE
    twice = done & is_fast & (known & FAST == 0)
    conflicts = done & ends_it & (state != known & OUTCOME)
    return {
        QuarantineReason.UNKNOWN_HALF: ~on_pending & ~done,
        QuarantineReason.GROUP_MISMATCH: meets_pending & faults.group,
        QuarantineReason.TRANSACTION_MISMATCH: meets_pending & faults.transaction,
        QuarantineReason.LATE_END: meets_pending & ends_it & faults.names_its_half & faults.late,
        QuarantineReason.CONFLICTING_END: (conflicts & ~twice)
        | (meets_pending & ends_it & faults.lost),
        QuarantineReason.DELIVERED_TWICE: twice | (meets_pending & faults.twice),
    }


def refuse(
    elements: OpElements,
    reasons: dict[QuarantineReason, Array],
    settings: StepSettings,
    head: Head,
) -> list[Refused]:
    """Return the refused elements, in their order."""
    topic = f"{settings.topic_prefix}op"
    placed: list[tuple[int, Refused]] = []
    for reason, where in reasons.items():
        refused = _refused(elements.take(where), reason, _ERRORS[reason], topic, head.number)
        placed += zip(np.flatnonzero(where).tolist(), refused, strict=True)
    return [refused for _, refused in sorted(placed, key=lambda entry: entry[0])]


def _refused(
    elements: OpElements, reason: QuarantineReason, error: str, topic: str, queue: int
) -> list[Refused]:
    """Refuse all elements; `error` may contain {half}, {id} and {group}."""
    refused = []
    columns = (elements.op_index, elements.position, elements.half_offset, elements.ids)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for op_index, position, half, transaction_id in rows:
        stored_op = elements.ops[op_index]
        error_text = error.format(half=half, id=transaction_id, group=stored_op.op.group)
        value = stored_op.op.about(Element(position, half, transaction_id)).to_value()
        source = f"{topic}:{queue}:{stored_op.offset}"
        refused.append(Refused(source, position, reason, error_text, None, value, []))
    return refused
