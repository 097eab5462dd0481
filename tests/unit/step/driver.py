"""Runs the step and the model over the same batches and compares all that they decide."""

from __future__ import annotations

from collections.abc import Set
from types import ModuleType
from typing import Any

import numpy as np

import resolver.resolve.step
from resolver.protocol import Outcome
from resolver.resolve.step import Changes, QueueDecisions, StepSettings

from .model import Model
from .records import Batch, History, Sent, stored
from .vocabulary import FENCE_SECRET, QUEUE, RANGE, Plan, Rules, Verdict


class Driver:
    """One queue, read by the step, its state saved and restored after each batch, and the model.

    `code` is `resolver.resolve.step`, or an altered copy of it.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        code: ModuleType = resolver.resolve.step,
        range_size: int = RANGE,
    ) -> None:
        self.rules = rules or Rules()
        self.state: dict[str, bytes] = {}
        self.model = Model(QUEUE, range_size)
        self.left: list[Sent] = []
        self.plan = Plan(0, 0, 0)
        self.code = code
        self.is_rebuild = False

    def read(self, batch: Batch, rules: Rules | None = None) -> QueueDecisions:
        """Read a batch by the step alone."""
        settings = StepSettings(**vars(rules or self.rules))
        state = {key: bytes(bytearray(value)) for key, value in self.state.items()}
        plan = self.code.Plan(*batch.plan)
        begin, to = self.code.ops_to_read(state, QUEUE, plan)
        self.left = [op for op in self.left + list(batch.ops) if op.offset >= begin]
        read = (stored(batch.halves), stored([op for op in self.left if op.offset < to]))
        decisions: QueueDecisions
        changes, decisions = self.code.step(
            state, QUEUE, plan, *read, batch.now_ms, settings, FENCE_SECRET, self.is_rebuild
        )
        self._apply(changes)
        self.plan = batch.plan
        return decisions

    def settle(
        self, outcomes: dict[int, Outcome], now_ms: int, fast: Set[int] = frozenset()
    ) -> None:
        """Start a rebuild: these transactions have ended before, those in `fast` fast."""
        self.is_rebuild = True
        offsets = np.array(list(outcomes), np.int64)
        ended = (list(outcomes.values()), [offset in fast for offset in outcomes])
        self._apply(self.code.settle_outcomes(self.state, QUEUE, offsets, *ended, now_ms))
        self.model.settle(outcomes, fast, now_ms)

    def _apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            if value is None:
                self.state.pop(key, None)
            else:
                assert type(value) is bytes, f"state {key} is a {type(value).__name__}"
                self.state[key] = value

    def check(self, batch: Batch, rules: Rules | None = None) -> QueueDecisions:
        """Read a batch by the step and by the model; they must decide the same."""
        decisions = self.read(batch, rules)
        expected = told(self.model, batch, rules or self.rules)
        compare(decisions, expected)
        return decisions

    def at(self, now_ms: int, *sent: Sent) -> QueueDecisions:
        """Read these records at `now_ms`, by the step and by the model."""
        halves = [one for one in sent if hasattr(one.means, "half")]
        ops = [one for one in sent if not hasattr(one.means, "half")]
        return self.check(Batch(now_ms, next_plan(self.plan, halves, ops), halves, ops))


def next_plan(before: Plan, halves: list[Sent], ops: list[Sent]) -> Plan:
    """Return the plan of a batch that reads up to the last of these."""
    halves_end = max((before.halves_end, *(half.offset + 1 for half in halves)))
    ops_end = max((before.ops_end, *(op.offset + 1 for op in ops)))
    return Plan(halves_end, before.ops_end, ops_end)


def told(model: Model, batch: Batch, rules: Rules) -> Verdict:
    """Return what the model says of a batch."""
    halves: Any = [sent.means for sent in batch.halves]
    ops: Any = [sent.means for sent in batch.ops]
    return model.batch(halves, ops, batch.now_ms, batch.plan, rules)


def check_history(
    history: History,
    code: ModuleType = resolver.resolve.step,
    range_size: int = RANGE,
    rebuilt: bool = False,
) -> None:
    """Compare the step with the model after each batch of a history.

    With `rebuilt`, a part of the history's halves have ended before it begins.
    """
    driver = Driver(code=code, range_size=range_size)
    if rebuilt:
        halves = [half.offset for batch, _ in history.batches for half in batch.halves]
        outcomes = {offset: list(Outcome)[offset // 5 % 4] for offset in halves if offset % 5 < 3}
        fast = {o for o, outcome in outcomes.items() if outcome is Outcome.COMMIT and o % 2}
        driver.settle(outcomes, history.batches[0][0].now_ms, fast)
    for batch, rules in history.batches:
        driver.check(batch, rules)


def compare(decisions: QueueDecisions, expected: Verdict) -> None:
    actual_ended = [(_of_end(end), *end[1:9], end.is_fast) for end in decisions.ended]
    assert actual_ended == [(_of_end(end), *end[1:]) for end in expected.ended]
    for end in decisions.ended:
        assert (end.error is None) is (end.outcome is not Outcome.UNDELIVERABLE), end
    actual_checks = [(plain(check.stored_half), check.checks) for check in decisions.checks]
    assert actual_checks == [(plain(asked.stored_half), asked.checks) for asked in expected.checks]
    refused = [(r.source, r.element, r.reason) for r in decisions.refused]
    assert sorted(refused, key=repr) == sorted(expected.refused, key=repr)
    assert decisions.duplicates == expected.duplicates
    counts = {
        (group, event.value): count for (group, event), count in decisions.check_counts.items()
    }
    assert counts == expected.check_counts
    assert decisions.next_op == expected.next_op
    assert decisions.watermark_ms == expected.watermark_ms
    assert decisions.pending == expected.pending
    assert decisions.wake_at_ms == expected.wake_at_ms
    assert decisions.fence_ops == expected.fence_ops
    assert list(decisions.revoke) == expected.revoke


def _of_end(end: Any) -> tuple[Any, ...]:
    """Return the half of an end, without the message if that is delivered already."""
    half = end.stored_half.half
    if end.is_fast:
        start = end.stored_half[:3]
        return (*start, half.transaction_id, half.group, half.topic, half.born_at_ms)
    return plain(end.stored_half)


def plain(at: Any) -> tuple[Any, ...]:
    """Return a half as nested tuples: how headers are held (lists, tuples) makes no difference."""
    half = at.half._replace(headers=[tuple(header) for header in at.half.headers])
    return (*at[:3], tuple(half), [tuple(header) for header in at.all_headers])
