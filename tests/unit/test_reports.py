"""Checks and queues are reported once a minute; a group that nobody answers for is named."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from resolver.resolve.figures import QueueFigures
from resolver.resolve.reports import Reports
from resolver.resolve.step import CheckEvent

SENT, COMMIT, ROLLBACK, UNKNOWN, UNANSWERED, DISCARDED = CheckEvent


class SetClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def reports(clock: SetClock, caplog: pytest.LogCaptureFixture) -> Reports:
    caplog.set_level(logging.DEBUG, "resolver")
    return Reports(clock)


def figures(queue: int = 0, group: str = "orders", **counts: int) -> QueueFigures:
    """Return figures of a batch; `counts` are by the names of events."""
    events = Counter({(group, CheckEvent[name]): count for name, count in counts.items()})
    return QueueFigures(queue, 1_234, 56, 0, 12, 2, 10_000, 8_800, None, False, events)


def of_groups(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    records = (record for record in caplog.records if "after check" not in record.message)
    return [(record.levelname, record.message) for record in records]


def test_figures_leave_the_worker_as_they_are() -> None:
    for one in (figures(), figures(SENT=3, UNKNOWN=1)._replace(watermark_ms=None)):
        assert QueueFigures.unpack(one.pack()) == one


def test_a_groups_checks_of_a_minute_are_one_line(
    reports: Reports, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    reports.take([figures(0, SENT=5, COMMIT=2), figures(1, SENT=1, ROLLBACK=1)])
    clock.now = 59.0
    reports.take([figures(0, UNKNOWN=1, UNANSWERED=3, DISCARDED=1)])
    reports.log()
    assert not caplog.messages
    clock.now = 60.0
    reports.log()
    reports.log()
    assert of_groups(caplog) == [
        (
            "INFO",
            "checks of group orders in 60 s: 6 sent; answered 2 COMMIT_MESSAGE, 1 "
            "ROLLBACK_MESSAGE, 1 UNKNOWN; 3 unanswered; 1 discarded",
        )
    ]


def test_a_group_of_whose_checks_none_is_answered_is_warned_of(
    reports: Reports, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    reports.take([figures(group="dead", SENT=4, UNANSWERED=3), figures(group="new", SENT=1)])
    clock.now = 61.0
    reports.log()
    (warned, told) = of_groups(caplog)
    assert warned == (
        "WARNING",
        "nobody answers for group dead: 3 checks unanswered in 61 s, 4 sent, 0 discarded. Start "
        "one of its producers, or `txresolver agent --group dead --listener MODULE:NAME`",
    )
    assert told[0] == "INFO" and told[1].startswith("checks of group new in 61 s: 1 sent")


def test_the_line_of_a_queue_has_its_last_figures_and_all_duplicates(
    reports: Reports, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    reports.take([figures(2)._replace(pending=99)])
    reports.take([figures(2), figures(3)._replace(watermark_ms=None)])
    clock.now = 60.0
    reports.log()
    reports.log()
    assert caplog.messages == [
        "after check: queue 2, half offset 1234, op offset 56 (0 left), watermark 1200 ms "
        "behind, 12 pending, 4 duplicates",
        "after check: queue 3, half offset 1234, op offset 56 (0 left), watermark 0 ms "
        "behind, 12 pending, 2 duplicates",
    ]


def test_at_the_end_all_is_said_that_was_not(
    reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    reports.take([figures(SENT=1)])
    reports.end()
    assert len(caplog.messages) == 2
    reports.end()
    assert len(caplog.messages) == 2


def test_a_flood_of_made_up_groups_is_one_group(
    reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    reports.take([figures(group=f"group-{number}", SENT=1) for number in range(1_000)])
    reports.end()
    said = of_groups(caplog)
    assert len(said) == 51
    assert said[-1][1].startswith("checks of group (other groups) in 0 s: 950 sent")
