"""Short forms for examples: an op of good elements, and what was decided, in plain tuples."""

from __future__ import annotations

from typing import Any

from resolver.resolve.step import QueueDecisions

from . import records


def ended(decisions: QueueDecisions) -> list[tuple[int, str, str]]:
    return [(e.stored_half.offset, e.outcome.value, e.source.value) for e in decisions.ended]


def checked(decisions: QueueDecisions) -> list[tuple[int, int]]:
    return [(check.stored_half.offset, check.checks) for check in decisions.checks]


def refused(decisions: QueueDecisions) -> list[tuple[str, int | None, str]]:
    return [(r.source, r.element, r.reason.value) for r in decisions.refused]


def end(offset: int, at: int, *halves: int, state: str = "COMMIT", **more: Any) -> records.Sent:
    elements = [(half, f"id-{half}") for half in halves]
    state = state if state == "UNKNOWN" else f"{state}_MESSAGE"
    return records.op(offset, at, elements, state, **more)
