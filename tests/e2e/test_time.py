"""Checks and the clock: backlogs, idle topics, ops far ahead."""

from __future__ import annotations

import time

from resolver.protocol import Element, Op

from .conftest import Resolving
from .world import COMMIT, ROLLBACK, World, header

FAST = {"transaction_timeout_ms": 1_000, "transaction_check_interval_ms": 60_000}


def test_no_check_where_the_op_was_stored_in_time_however_late_it_is_read(
    world: World, resolving: Resolving
) -> None:
    """A backlog, long overdue by the clock, and a small limit per batch."""
    with resolving("first"):
        pass
    halves = 300
    for _ in range(halves // 50):
        for queue in (0, 1):
            sent = world.send_halves((world.message() for _ in range(25)), queue)
            for one in sent:
                world.end(one)
    lone = world.send_half()
    _let_pass(lone.stored_at_ms + FAST["transaction_timeout_ms"])

    with resolving("first", max_offsets_per_trigger=60, **FAST):
        outcomes = world.outcomes(halves)
        checks = world.checks(1)

    assert set(outcomes.values()) == {"COMMIT"}
    assert [header(check, "HALF_OFFSET") for check in checks] == [lone.at]


def test_checks_go_out_on_idle_topics_also_after_a_restart(
    world: World, resolving: Resolving
) -> None:
    with resolving(**FAST):
        before = world.send_half()
        (check,) = world.checks(1)
        assert header(check, "HALF_OFFSET") == before.at
        assert check.timestamp()[1] > before.stored_at_ms + FAST["transaction_timeout_ms"]
    while_stopped = world.send_half(queue=1)
    _let_pass(while_stopped.stored_at_ms + FAST["transaction_timeout_ms"])
    with resolving(**FAST):
        checks = world.checks(2)
    assert {header(check, "HALF_OFFSET") for check in checks} == {before.at, while_stopped.at}


def test_an_op_far_ahead_of_any_half_ends_in_quarantine(world: World, resolving: Resolving) -> None:
    with resolving(broker_clock_skew_ms=500):
        made_up = Op(COMMIT, world.group, (Element(0, 10**12, "made-up"),))
        stored = world.produce([made_up.to_record(world.names.op, 0)])[0]
        _let_pass(stored.timestamp()[1] + 1_000)
        honest = world.send_half()
        world.end(honest, state=ROLLBACK)
        (refused,) = world.quarantined(1)
        (said,) = world.resolutions(1)

    assert header(refused, "REASON") == "UNKNOWN_HALF"
    assert header(refused, "SOURCE") == f"{world.names.op}:0:{stored.offset()}"
    assert header(refused, "ELEMENT") == "0"
    assert said.outcome == "ROLLBACK"


def _let_pass(time_ms: int) -> None:
    """Return once the clock has passed a time."""
    while time.time_ns() // 1_000_000 <= time_ms:
        time.sleep(0.05)
