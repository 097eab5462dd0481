"""The step decides what the model decides, on histories of every kind.

`STEP_HISTORIES` says how many (5000); the gate takes a fifth.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resolver.resolve.step
from resolver.protocol import QuarantineReason

from .altered import Change, altered_step
from .cuts import calm, recut, stretches
from .driver import Driver, check_history, told
from .histories import histories, numbered
from .model import HELD_MS, Model
from .records import History
from .vocabulary import QUEUE, Ends

HISTORIES = int(os.environ.get("STEP_HISTORIES", "5000"))
MANY = settings(max_examples=HISTORIES, suppress_health_check=list(HealthCheck))
FEWER = settings(MANY, max_examples=max(50, HISTORIES // 10))


@MANY
@given(histories())
def test_the_step_equals_the_model_on_every_history(history: History) -> None:
    check_history(history)


@FEWER
@given(histories())
def test_a_rebuilt_queue_takes_what_had_ended_as_ended(history: History) -> None:
    check_history(history, rebuilt=True)


@FEWER
@given(histories(), st.integers(0, 2**32), st.sampled_from([None, 20_000, 10**6]))
def test_a_history_cut_differently_ends_the_same_where_no_deadline_falls_between(
    history: History, seed: int, timeout_ms: int | None
) -> None:
    history = calm(history, timeout_ms)
    assert _told(recut(history, Random(seed))) == _told(history)  # noqa: S311


def _told(history: History) -> dict[str, Any]:
    """What a history comes to, by the step; when it was decided aside."""
    driver, ended, refused = Driver(), {}, []
    checks: list[tuple[int, int]] = []
    duplicates, check_counts = 0, Counter[Any]()
    for batch, rules in history.batches:
        decisions = driver.read(batch, rules)
        for end in decisions.ended:
            assert end.stored_half.offset not in ended
            ended[end.stored_half.offset] = end._replace(decided_at_ms=0)[1:]
        checks += [(check.stored_half.offset, check.checks) for check in decisions.checks]
        refused += [(r.source, r.element, r.reason) for r in decisions.refused]
        duplicates += decisions.duplicates
        check_counts += decisions.check_counts
    left = decisions[5:-1]  # when to wake, watermark, pending, next op
    return {
        "revoke": set(decisions.revoke),
        "ended": ended,
        "checks": checks,
        "refused": Counter(refused),
        "duplicates": duplicates,
        "check_counts": check_counts,
        "left": left,
    }


@FEWER
@given(histories(obedient=True))
def test_what_its_producer_has_delivered_no_half_is_delivered_for_again(history: History) -> None:
    """However answers, operators' ends, plain commits and revocations come in between."""
    assert_none_is_delivered_twice(history)


def assert_none_is_delivered_twice(
    history: History, code: ModuleType = resolver.resolve.step
) -> set[int]:
    """Read a history whose producers obey; return the halves that they have delivered."""
    says = [op.op_read.says for batch, _ in history.batches for op in batch.ops]
    ops = [said for said in says if isinstance(said, Ends) and said.delivered]
    delivered = {element[0] for said in ops for element in said.elements if element}
    driver = Driver(code=code)
    for batch, rules in history.batches:
        decisions = driver.read(batch, rules)
        assert {refused.reason for refused in decisions.refused}.isdisjoint(
            {QuarantineReason.DELIVERED_TWICE}
        )
        for end in decisions.ended:
            stored_half = end.stored_half
            assert end.is_fast == (stored_half.offset in delivered), stored_half
    return delivered


def test_obedient_producers_deliver_often() -> None:
    """Else little would be said above."""
    delivered = [assert_none_is_delivered_twice(numbered(n, obedient=True)) for n in range(100)]
    assert sum(map(bool, delivered)) > 20


def test_many_histories_can_be_cut_differently() -> None:
    cuttable = [
        any(len(s.batches) > 1 and not s.whole for s in stretches(calm(numbered(n), 20_000)))
        for n in range(100)
    ]
    assert sum(cuttable) > 50


def test_two_queues_side_by_side_know_nothing_of_each_other() -> None:
    for number in range(20):
        one, other = Driver(), Driver()
        pairs = zip(numbered(number).batches, numbered(number + 1).batches, strict=False)
        for (batch, rules), (other_batch, other_rules) in pairs:
            one.check(batch, rules)
            other.check(other_batch, other_rules)


SMALL = [
    Change("state/head.py", "SEGMENT = 4096", "SEGMENT = 4", "ranges of 4 offsets"),
    Change(
        "state/bodies.py", "CHUNK_BYTES = 512 * 1024", "CHUNK_BYTES = 900", "chunks of a few bodies"
    ),
    Change("state/bodies.py", "_IN_MEMORY = 64", "_IN_MEMORY = 1", "a chunk in memory at a time"),
    Change("state/settled.py", "AT_ONCE = 1_000", "AT_ONCE = 10_000_000", "wide gaps at once"),
]


def test_how_state_is_cut_makes_no_difference(tmp_path: Path) -> None:
    """With tiny ranges and chunks, small histories cross them as large ones do."""
    with altered_step(SMALL, tmp_path) as small:
        for number in range(max(100, HISTORIES // 10)):
            check_history(numbered(number), small, 4, rebuilt=number % 4 == 3)


def test_state_shrinks_to_a_head_and_outcomes_when_nothing_is_pending() -> None:
    driver = Driver()
    for number in range(200):
        driver = Driver()
        for batch, rules in numbered(number).batches:
            decisions = driver.read(batch, rules)
        kinds = {key.split("/")[0] for key in driver.state}
        assert ("pending" in kinds) == ("body" in kinds) == (decisions.pending > 0)


@pytest.fixture(scope="module")
def seen() -> Counter[Any]:
    """Count what 300 histories lead to, by the model."""
    counted: Counter[Any] = Counter()
    for number in range(300):
        model = Model(QUEUE)
        for batch, rules in numbered(number).batches:
            waited = {op.offset for op in model.unread}
            before = {offset: replace(row) for offset, row in model.pending.items()}
            verdict = told(model, batch, rules)
            counted.update((end.outcome, end.source, end.reason) for end in verdict.ended)
            counted.update(reason for _, _, reason in verdict.refused)
            counted.update(f"check {asked.checks}" for asked in verdict.checks)
            counted["duplicate"] += verdict.duplicates
            counted["waited, then ended"] += sum(e.op_offset in waited for e in verdict.ended)
            counted["backing off"] += any(row.streak > 1 for row in model.pending.values())
            counted["is back"] += bool(model.returned)
            counted["asked on return"] += any(row.extra for row in model.pending.values())
            counted["limited"] += verdict.wake_at_ms == 0
            counted["fast"] += sum(end.is_fast for end in verdict.ended)
            ids = {row.fast_id for row in before.values() if row.waits}
            counted["waited for its id"] += sum(
                e.stored_half.half.fast_id in ids for e in verdict.ended
            )
            counted["left waiting"] += model.left_waiting
            counted["wanted"] += bool(verdict.revoke)
            rows = model.pending.values()
            counted["gave up"] += any(row.gave_up for row in rows)
            counted["held"] += any(row.deadline_ms == HELD_MS and not row.waits for row in rows)
            counted["checked when free"] += any(row.fast_id and row.checks for row in rows)
            counted["lost"] += model.lost_until_ms is not None
    return counted


def test_histories_reach_every_reason_outcome_and_rule(seen: Counter[Any]) -> None:
    """Else the comparison above would compare little."""
    from resolver.protocol import DiscardReason, Outcome, Source

    ends = [
        (outcome, source, None)
        for outcome in (Outcome.COMMIT, Outcome.ROLLBACK)
        for source in (Source.END, Source.CHECK, Source.OPERATOR)
    ]
    discards = [
        (Outcome.DISCARD, Source.LIMIT, reason)
        for reason in (DiscardReason.CHECK_MAX, DiscardReason.EXPIRED)
    ]
    more = ["duplicate", "check 1", "check 3", "waited, then ended", "backing off", "limited"]
    more += ["is back", "asked on return", "fast", "waited for its id", "left waiting", "wanted"]
    more += ["gave up", "held", "checked when free", "lost"]
    rare = [what for what in (*ends, *discards, *QuarantineReason, *more) if seen[what] < 10]
    assert {what: seen[what] for what in rare} == {}
