"""What an audit of a world that has come to its end may leave unjudged: hardly anything."""

from __future__ import annotations

import pytest

from tests.faults.audit import not_judged

COUNTS = {
    "halves": 12,
    "outcomes": 10,
    "refused_halves": 2,
    "pending": 0,
    "outcomes_of_halves_or_ops_kept_no_longer": 0,
    "halves_of_topics_not_read": 0,
}


def test_all_that_ended_is_judged() -> None:
    assert not_judged(COUNTS, settled=10, undeliverable=0) == ""
    assert "10 outcomes" in not_judged(COUNTS, settled=11, undeliverable=0)


@pytest.mark.parametrize("name", ["pending", "outcomes_of_halves_or_ops_kept_no_longer"])
def test_whatever_else_is_counted_was_not(name: str) -> None:
    assert name in not_judged({**COUNTS, name: 1}, settled=10, undeliverable=0)


def test_topics_that_were_not_read_are_those_that_take_nothing() -> None:
    counts = {**COUNTS, "halves_of_topics_not_read": 3}
    assert not_judged(counts, settled=10, undeliverable=3) == ""
    assert "halves_of_topics_not_read" in not_judged(counts, settled=10, undeliverable=2)
