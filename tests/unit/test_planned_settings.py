"""Which settings a batch is decided with."""

from __future__ import annotations

import json
from dataclasses import asdict

from resolver.resolve.planned_settings import PlannedSettings, step_settings
from resolver.resolve.step import StepSettings
from resolver.settings import Group, Settings

FIRST, SECOND, THIRD = (StepSettings(transaction_timeout_ms=ms) for ms in (1, 2, 3))
NONE = PlannedSettings(())


def test_each_batch_has_what_held_when_it_was_planned() -> None:
    planned = NONE.then(0, FIRST).then(3, SECOND).then(7, THIRD)
    assert [planned.for_batch(batch) for batch in (0, 2, 3, 6, 7, 99)] == [
        FIRST,
        FIRST,
        SECOND,
        SECOND,
        THIRD,
        THIRD,
    ]


def test_settings_that_come_back_hold_from_then_on() -> None:
    planned = NONE.then(0, FIRST).then(3, SECOND).then(5, FIRST)
    assert [planned.for_batch(batch) for batch in (2, 4, 5)] == [FIRST, SECOND, FIRST]


def test_settings_that_no_batch_was_planned_with_never_hold() -> None:
    planned = NONE.then(0, FIRST).then(3, SECOND).then(3, THIRD)
    assert [planned.for_batch(batch) for batch in (2, 3, 4)] == [FIRST, THIRD, THIRD]
    assert NONE.then(0, FIRST).then(0, SECOND).for_batch(0) == SECOND


def test_the_same_settings_make_no_entry() -> None:
    planned = NONE.then(0, FIRST)
    assert planned.then(3, StepSettings(transaction_timeout_ms=1)) is planned


def test_a_batch_before_all_entries_has_the_first() -> None:
    assert NONE.then(5, FIRST).then(6, SECOND).for_batch(4) == FIRST


def test_groups_with_topics_are_what_a_step_must_know_and_json_keeps_it() -> None:
    groups = {
        "orders": Group(("orders.*", "audit"), "User:orders"),
        "pay": Group(None, "User:pay"),
        "*": Group(()),
    }
    known = step_settings(Settings(groups=groups))
    assert known.group_topics == {"orders": ["orders.*", "audit"], "*": []}
    kept = json.loads(json.dumps(asdict(known)))
    assert StepSettings(**kept) == known


def test_limits_on_a_batch_are_shared_among_the_queues() -> None:
    shared = step_settings(Settings(queues=4, max_checks_per_batch=10, file_reserved_hours=2))
    assert shared.max_checks == 2
    assert shared.file_reserved_ms == 7_200_000
