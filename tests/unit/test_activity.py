"""A line a minute says what was delivered; where nothing happened there is none."""

from __future__ import annotations

import logging

import pytest

from resolver.protocol import Names, Outcome, Resolution, Source
from resolver.resolve.delivery.activity import Activity
from resolver.resolve.delivery.packed import DecisionRecords, Output, as_output

NAMES = Names("tx.")
ENDED_AT_MS = 1_000_000
MESSAGE = Output("orders.placed", None, b"lamp", (), -1, 0)
CHECK = DecisionRecords(Output(NAMES.check("orders"), None, b"", (), -1, 0))


def resolution(outcome: Outcome, ended_at: int | None = ENDED_AT_MS) -> Output:
    said = Resolution(
        transaction_id="id", queue=0, offset=0, outcome=outcome, source=Source.END, group="orders",
        topic="orders.placed", op_offset=0, checks=0, answered=0, born_at=0, stored_at=0,
        ended_at=ended_at, decided_at=0, batch_id=0, query_id="q",
    )  # fmt: skip
    return as_output(said.to_record(NAMES.resolution))


COMMIT = DecisionRecords(MESSAGE, resolution(Outcome.COMMIT), b"headers")
ROLLBACK = DecisionRecords(None, resolution(Outcome.ROLLBACK))
DISCARD = DecisionRecords(MESSAGE, resolution(Outcome.DISCARD, None))


class Clock:
    """Both clocks: seconds since the start, and the time of day."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return ENDED_AT_MS / 1_000 + self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def activity(clock: Clock, caplog: pytest.LogCaptureFixture) -> Activity:
    caplog.set_level(logging.INFO, "resolver")
    return Activity(NAMES, clock.monotonic, clock.time)


def test_after_a_minute_it_says_what_was_written_and_begins_again(
    activity: Activity, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.seconds = 0.25
    activity.count([COMMIT] * 1_200 + [ROLLBACK, DISCARD, CHECK])
    activity.pending(0, 30)
    activity.pending(1, 9)
    activity.tell()
    assert caplog.messages == []
    clock.seconds = 60.0
    activity.tell()
    assert caplog.messages == [
        "last minute: 1,200 committed, 1 rolled back, 1 discarded or undeliverable, 1 checks sent, "
        "39 pending now, p50 0.25 s from a stored commit to its visible message"
    ]
    clock.seconds = 120.0
    activity.tell()
    assert len(caplog.messages) == 1


def test_the_median_counts_each_commit_of_a_large_batch(
    activity: Activity, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds, commits in ((1.0, 1), (2.0, 1), (5.0, 1_000), (9.0, 1), (9.5, 1)):
        clock.seconds = seconds
        activity.count([COMMIT] * commits)
    clock.seconds = 60.0
    activity.tell()
    assert "p50 5.00 s" in caplog.text


def test_pending_halves_alone_are_no_news(
    activity: Activity, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    activity.pending(0, 39)
    clock.seconds = 60.0
    activity.tell()
    assert caplog.messages == []
