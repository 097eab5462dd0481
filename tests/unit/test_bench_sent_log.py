"""The counters of `scripts/bench`: what became visible, how soon, how often, and what is next."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from tests.bench.arriving import latency_figures
from tests.bench.checks import lateness
from tests.bench.pace import Pace
from tests.bench.sent_log import SentLog, body_of, numbers_in


def sent_log(folder: Path, count: int = 10) -> SentLog:
    return SentLog(folder / "sent", count)


def see(of: SentLog, now: float, *numbers: int) -> None:
    of.see(np.array(numbers, np.int64), now)


def test_a_body_gives_its_number_away() -> None:
    bodies = [body_of(number, 512) for number in (0, 7, 10_000_000_000)]
    assert {len(body) for body in bodies} == {512}
    assert numbers_in(bodies).tolist() == [0, 7, 10_000_000_000]


def test_a_message_counts_once_and_is_doubled_when_it_comes_again(tmp_path: Path) -> None:
    counted = sent_log(tmp_path)
    see(counted, 100.0, 3, 4)
    assert (counted.delivered, counted.doubled()) == (2, 0)
    see(counted, 101.0, 4, 5)  # in a later fetch
    see(counted, 102.0, 6, 6)  # in the same one
    assert (counted.delivered, counted.doubled()) == (4, 2)
    assert counted.visible[[3, 4, 5, 6]].tolist() == [100.0, 100.0, 101.0, 102.0]  # the first time


def test_another_process_sees_what_was_written(tmp_path: Path) -> None:
    written, read = sent_log(tmp_path), sent_log(tmp_path)
    written.since[1] = 99.0
    see(written, 100.0, 1)
    assert read.delivered == 1
    assert read.waits().tolist() == [1.0]


def test_waits_are_of_what_was_ended_in_a_time_and_is_visible(tmp_path: Path) -> None:
    counted = sent_log(tmp_path)
    counted.since[:5] = [9.0, 10.0, 11.0, 19.0, 20.0]
    see(counted, 12.0, 0, 1)
    see(counted, 29.0, 3, 4)  # after the time, but ended in it
    assert counted.waits(10.0, 20.0).tolist() == [2.0, 10.0]  # the third is not visible yet
    assert counted.waits().tolist() == [2.0, 3.0, 9.0, 10.0]
    assert counted.ended(10.0, 20.0) == 3
    assert counted.became_visible(10.0, 20.0) == 2


def test_quantiles_are_in_ms_and_none_where_nothing_waited() -> None:
    waits = np.arange(1, 101) / 1_000
    assert latency_figures(waits) == {"p50_ms": 51, "p90_ms": 91, "p99_ms": 100, "max_ms": 100}
    assert latency_figures(waits[:0]) == {}


def test_checks_are_late_by_what_was_due_in_a_time(tmp_path: Path) -> None:
    due = sent_log(tmp_path)
    due.since[:] = 100.0 + np.arange(10)
    see(due, 110.0, *range(10))
    found = lateness(due, 102.0, 106.0)
    assert (found["checks"], found["missing"]) == (4, 0)
    assert (found["p50_ms"], found["max_ms"]) == (7_000, 8_000)


def test_a_missing_check_is_late_without_end(tmp_path: Path) -> None:
    due = sent_log(tmp_path)
    due.since[:] = 100.0
    see(due, 101.0, 0)  # one of ten
    found = lateness(due, 100.0, 101.0)
    assert (found["checks"], found["missing"]) == (1, 9)
    assert found["p50_ms"] == found["p99_ms"] == float("inf")


def test_pace_gives_each_number_once_and_ends_with_the_sent_log(tmp_path: Path) -> None:
    pace = Pace(sent_log(tmp_path), threading.Event(), rate=None, in_flight=None)
    assert [pace.take(4) for _ in range(4)] == [range(4), range(4, 8), range(8, 10), range(0)]
    assert pace.sent == 10


def test_pace_has_no_more_on_their_way_than_it_may(tmp_path: Path) -> None:
    counted, ended = sent_log(tmp_path), threading.Event()
    pace = Pace(counted, ended, rate=None, in_flight=3)
    assert pace.take(100) == range(3)
    see(counted, 100.0, 0, 1)
    see(counted, 101.0, 1)  # again: one more is not on its way for that
    assert pace.take(100) == range(3, 5)
    ended.set()
    assert pace.take(100) == range(0)


def test_pace_gives_what_is_due_at_its_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [50.0]
    monkeypatch.setattr("tests.bench.pace.time.monotonic", lambda: now[0])
    pace = Pace(sent_log(tmp_path), threading.Event(), rate=2, in_flight=None)
    assert pace.take(100) == range(1)  # the first at once
    now[0] = 51.0
    assert pace.take(100) == range(1, 3)
    now[0] = 51.5
    assert pace.take(100) == range(3, 4)
