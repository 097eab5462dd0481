"""What an agent holds, and how far offsets may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resolver.producer.agent.holding import Held, Holding
from resolver.producer.agent.progress import CheckPosition, Progress
from resolver.protocol import Check, Half, HalfId


def held(offset: int, times: int = 1, at: int = 0, partition: int = 0) -> Held:
    half = Half(f"t{offset}", "orders", "real", 1, None, b"", [])
    return Held(Check(half, HalfId(0, offset), times), CheckPosition(partition, at))


def test_of_several_waiting_checks_for_one_half_the_newest_is_asked() -> None:
    holding = Holding()
    first, second, stale = held(1, times=1), held(1, times=2), held(1, times=1)
    assert holding.put(first) is None
    assert holding.put(second) is first
    assert holding.put(stale) is stale
    assert holding.take(0.0) is second
    assert holding.take(0.0) is None


def test_a_repeated_check_takes_the_place_of_the_first() -> None:
    holding = Holding()
    holding.put(held(1, at=5))
    again = held(1, at=9)
    needless = holding.put(again)
    assert needless is not None and needless.position.offset == 5
    assert holding.take(0.0) is again


def test_a_half_is_asked_about_by_one_thread_at_a_time() -> None:
    holding = Holding()
    holding.put(held(1, times=1))
    holding.put(held(2))
    asked = holding.take(0.0)
    assert asked is not None
    holding.put(held(1, times=2))
    other = holding.take(1.0)
    assert other is not None and other.half_id.offset == 2
    assert holding.take(1.0) is None
    assert holding.finish(asked, 2.0)
    newer = holding.take(10.0)
    assert newer is not None and newer.check.times == 2


def test_checks_of_a_half_whose_listener_is_overdue_are_needless_until_it_returns() -> None:
    holding = Holding()
    holding.put(held(1, times=1))
    asked = holding.take(0.0)
    behind, later, after = (held(1, times=times) for times in (2, 3, 4))
    assert asked is not None and holding.put(behind) is None
    assert holding.take_overdue(10.0, 10.0) == ([asked], [behind])
    assert holding.put(later) is later
    assert holding.take(10.0) is None
    holding.finish(asked, 11.0)
    assert holding.put(after) is None
    assert holding.take(11.0) is after


def test_what_is_held_is_counted_until_its_answer_arrived() -> None:
    holding = Holding()
    holding.put(held(1))
    holding.put(held(2))
    assert len(holding) == 2
    one = holding.take(0.0)
    assert one is not None and len(holding) == 2
    assert holding.finish(one, 1.0) is True
    assert len(holding) == 2
    holding.arrived()
    assert len(holding) == 1


def test_an_overdue_answer_is_late_and_counted_once() -> None:
    holding = Holding()
    holding.put(held(1))
    one = holding.take(0.0)
    assert one is not None
    assert holding.take_overdue(9.9, 10.0) == ([], [])
    assert holding.take_overdue(10.0, 10.0) == ([one], [])
    assert holding.take_overdue(11.0, 10.0) == ([], [])
    assert len(holding) == 1  # the UNKNOWN on its way
    holding.arrived()
    assert holding.finish(one, 12.0) is False
    assert len(holding) == 0


def test_it_is_hung_when_every_thread_is_overdue() -> None:
    holding = Holding()
    for offset in (1, 2, 3):
        holding.put(held(offset))
    holding.take(0.0), holding.take(5.0)
    holding.take_overdue(10.0, 10.0)
    assert not holding.hung(10.0, threads=2, timeout=10.0, submitted=2, submitted_at=0.0)
    holding.take_overdue(15.0, 10.0)
    assert holding.hung(15.0, threads=2, timeout=10.0, submitted=2, submitted_at=0.0)
    assert not holding.hung(15.0, threads=3, timeout=10.0, submitted=2, submitted_at=0.0)


def test_it_is_hung_when_a_smaller_executor_begins_no_task_any_more() -> None:
    holding = Holding()
    holding.put(held(1))
    holding.put(held(2))
    holding.take(0.0)
    holding.take_overdue(10.0, 10.0)
    assert not holding.hung(10.0, threads=5, timeout=10.0, submitted=2, submitted_at=0.0)
    assert holding.hung(20.0, threads=5, timeout=10.0, submitted=2, submitted_at=0.0)


def test_a_task_that_was_just_submitted_does_not_wait_for_a_thread_yet() -> None:
    holding = Holding()
    holding.put(held(1))
    holding.take(0.0)
    holding.take_overdue(10.0, 10.0)
    holding.put(held(2))
    assert not holding.hung(90.0, threads=5, timeout=10.0, submitted=2, submitted_at=90.0)


def test_checks_of_partitions_that_went_away_are_dropped() -> None:
    holding = Holding()
    holding.put(held(1, partition=0))
    holding.put(held(2, partition=1))
    holding.drop({0})
    left = holding.take(0.0)
    assert left is not None and left.position.partition == 1
    assert holding.take(0.0) is None


@given(st.permutations(range(8)), st.integers(0, 8))
def test_only_a_prefix_that_is_done_is_committed(order: list[int], count: int) -> None:
    offsets = [10, 11, 13, 14, 20, 21, 22, 30]  # transactions leave gaps
    progress = Progress()
    for offset in offsets:
        progress.read(CheckPosition(0, offset))
    committed = progress.advanced().get(0, 10)
    assert committed == 10
    done = {offsets[index] for index in order[:count]}
    for index in order[:count]:
        progress.done(CheckPosition(0, offsets[index]))
        committed = progress.advanced().get(0, committed)
    open_ones = [offset for offset in offsets if offset not in done]
    assert committed <= (open_ones[0] if open_ones else 31)
    assert all(offset < committed for offset in offsets if offset < min(open_ones, default=31))


def test_nothing_is_told_twice_and_partitions_do_not_mix() -> None:
    progress = Progress()
    for place in (CheckPosition(0, 5), CheckPosition(1, 5)):
        progress.read(place)
    progress.advanced()
    progress.done(CheckPosition(1, 5))
    assert progress.advanced() == {1: 6}
    assert progress.advanced() == {}


def test_a_partition_that_came_back_starts_anew() -> None:
    progress = Progress()
    progress.read(CheckPosition(0, 5))
    progress.read(CheckPosition(0, 6))
    progress.forget([0])
    progress.done(CheckPosition(0, 5))
    assert progress.advanced() == {}
    progress.read(CheckPosition(0, 5))
    progress.done(CheckPosition(0, 6))  # read by the former life, not yet by this one
    progress.done(CheckPosition(0, 5))
    assert progress.advanced() == {0: 6}


def test_reading_back_from_an_earlier_offset_forgets_what_came_after() -> None:
    progress = Progress()
    for offset in (5, 6, 5):
        progress.read(CheckPosition(0, offset))
    progress.done(CheckPosition(0, 5))
    assert progress.advanced() == {0: 6}
