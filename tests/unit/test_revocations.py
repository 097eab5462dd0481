"""Whose turn it is to be revoked, which records are due, and what operators are told."""

from __future__ import annotations

import logging

import pytest

from resolver.kafka.partition_offsets import StableEnd
from resolver.resolve.revocation_reports import RevocationReports
from resolver.resolve.revocations import WATCH, Revocations, Waiting
from resolver.resolve.stuck import OpRecordId, Standstill
from resolver.settings import Settings


def schedule(at_once: int = 2, interval_seconds: float = 1.0) -> Revocations:
    return Revocations(at_once, interval_seconds)


def test_the_oldest_wish_comes_first_and_queues_take_turns() -> None:
    ids = schedule(at_once=10)
    ids.want({0: ["a0", "a1", "a2"], 1: ["b0"]}, 5.0)
    ids.want({0: ["a0", "a1", "a2"], 2: ["c0"]}, 6.0)
    assert ids.begin(7.0) == ["a0", "b0", "a1", "a2", "c0"]


def test_no_more_are_under_way_than_may_be() -> None:
    ids = schedule(at_once=2)
    ids.want({0: ["a", "b", "c"]}, 0.0)
    assert ids.begin(0.0) == ["a", "b"]
    assert ids.begin(0.0) == []
    assert ids.next_at() is None, "nothing is to be done before one has ended"
    ids.succeed("a", 1.0)
    assert ids.begin(1.0) == ["c"]


def test_an_id_whose_queue_no_longer_wants_it_keeps_its_turn_until_it_has_ended() -> None:
    ids = schedule(at_once=1)
    ids.want({0: ["a", "b"]}, 0.0)
    assert ids.begin(0.0) == ["a"]
    ids.want({0: ["b"]}, 0.5)
    assert ids.begin(0.5) == []
    assert ids.succeed("a", 1.0) is None, "nobody has waited for it"
    assert ids.records(1.0) == []
    assert ids.begin(1.0) == ["b"]


def test_one_that_fails_waits_longer_each_time_and_holds_up_no_other() -> None:
    ids = schedule(at_once=1)
    ids.want({0: ["bad", "good"]}, 0.0)
    assert ids.begin(0.0) == ["bad"]
    ids.fail("bad", 0.0, "no leader")
    assert ids.begin(0.0) == ["good"]
    ids.succeed("good", 0.0)
    for failures, pause in enumerate((1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)):
        now = 100.0 * failures
        ids.fail("bad", now, "no leader") if failures else None
        assert ids.begin(now + pause - 0.1) == []
        assert ids.begin(now + pause) == ["bad"]
    ids.fail("bad", 1_000.0, "no leader")
    ids.want({1: ["new"]}, 1_040.0)
    assert ids.begin(1_040.0) == ["new"], "it was never tried"


def test_a_queue_is_told_until_it_no_longer_asks() -> None:
    ids = schedule(interval_seconds=2.0)
    ids.want({0: ["a"], 1: ["a"]}, 0.0)
    assert ids.records(0.0) == [], "nothing is told before Kafka's answer"
    ids.begin(0.0)
    assert ids.records(0.5) == []
    assert ids.succeed("a", 1.0) == 1.0
    assert ids.next_at() == 0.0
    assert ids.records(1.0) == [(0, "a"), (1, "a")]
    assert ids.records(2.9) == []
    assert ids.next_at() == 3.0
    ids.want({0: []}, 2.9)
    assert ids.records(3.0) == [(1, "a")]
    ids.want({1: []}, 3.1)
    assert ids.next_at() is None


def test_a_queue_that_asks_later_is_told_at_once_while_another_still_asks() -> None:
    ids = schedule()
    ids.want({0: ["a"]}, 0.0)
    ids.begin(0.0)
    ids.succeed("a", 0.1)
    assert ids.records(0.1) == [(0, "a")]
    ids.want({1: ["a"]}, 0.2)
    assert ids.begin(0.2) == []
    assert ids.records(0.2) == [(1, "a")]


def test_an_id_that_was_forgotten_is_revoked_once_more() -> None:
    ids = schedule()
    ids.want({0: ["a"]}, 0.0)
    ids.begin(0.0)
    ids.succeed("a", 0.1)
    ids.want({0: []}, 0.2)
    ids.want({1: ["a"]}, 9.0)
    assert ids.records(9.0) == []
    assert ids.begin(9.0) == ["a"]


def test_the_watch_of_op_partitions_wants_no_record() -> None:
    ids = schedule()
    ids.want({WATCH: ["a"]}, 0.0)
    assert ids.begin(0.0) == ["a"]
    ids.succeed("a", 0.1)
    assert ids.records(0.1) == [] and ids.next_at() is None
    assert ids.begin(0.1) == [], "it is not revoked again while it is watched"
    ids.want({0: ["a"]}, 0.2)
    assert ids.records(0.2) == [(0, "a")]


def test_what_waits_is_named_with_the_oldest_first_and_why() -> None:
    ids = schedule()
    assert ids.waiting() == Waiting([], [], "")
    ids.want({0: ["a", "b", "c"]}, 0.0)
    ids.begin(0.0)
    ids.fail("a", 0.1, "not permitted", is_forbidden=True)
    ids.succeed("b", 0.1)
    assert ids.waiting() == Waiting(["a", "c"], ["a"], "not permitted")
    ids.begin(1.1)
    ids.fail("a", 1.2, "no leader")
    assert ids.waiting().forbidden == []
    ids.want({0: []}, 2.0)
    assert ids.waiting() == Waiting([], [], "")


class SetClock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def reports(clock: SetClock, caplog: pytest.LogCaptureFixture) -> RevocationReports:
    caplog.set_level(logging.INFO, "resolver")
    return RevocationReports(Settings(topic_prefix="dev."), clock)


NOTHING = Waiting([], [], "")


def test_the_revocations_of_a_minute_are_one_line(
    reports: RevocationReports, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    reports.log(NOTHING)
    reports.count(0.06)
    clock.now += 59.0
    reports.count(1.27)
    reports.log(NOTHING)
    assert not caplog.messages
    clock.now += 1.0
    reports.log(NOTHING)
    reports.log(NOTHING)
    assert caplog.messages == ["revoked 2 fast ids in 60 s, each within 1.3 s"]
    reports.count(0.5)
    reports.end()
    reports.end()
    assert caplog.messages[1:] == ["revoked 1 fast ids in 0 s, each within 0.5 s"]


def test_a_missing_right_is_warned_of_at_once_and_each_minute(
    reports: RevocationReports, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = Waiting(["a", "b", "c"], ["b", "c"], "refused")
    for _ in range(60):
        reports.log(waiting)
        clock.now += 1.0
    assert caplog.messages == [
        "no permission to revoke 2 fast ids, such as b: halves that name them wait. Grant the "
        "resolver Write on the transactional ids dev.fast:* (`txresolver topics create --acls`)"
    ]
    reports.log(Waiting(["a"], [], "no leader"))
    assert caplog.messages[1:] == [
        "1 fast ids are not revoked yet, such as a: halves that name them wait, and it is tried "
        "again (no leader)"
    ]
    clock.now += 60.0
    reports.log(Waiting(["a"], [], ""))
    assert len(caplog.messages) == 2, "what waits for its turn only is no failure"


def test_figures_count_the_times_and_what_waits(reports: RevocationReports) -> None:
    for seconds in (0.05, 0.3, 100.0):
        reports.count(seconds)
    found = reports.revoked(Waiting(["a", "b"], ["b"], "refused"))
    assert (found.total, found.seconds, found.waiting, found.forbidden) == (3, 100.35, 2, 1)
    assert found.at_most[0.05] == 1 and found.at_most[0.25] == 1
    assert found.at_most[0.5] == 2 and found.at_most[60.0] == 2


def looks(*ends: tuple[float, int, int]) -> list[OpRecordId]:
    """Return what the last of some looks finds; each has its time, the stable end and the end."""
    standstill, found = Standstill(2.0), []
    for now, stable, end in ends:
        found = standstill.look({3: StableEnd(stable, end)}, now)
    return found


def test_a_partition_stands_still_when_a_transaction_has_been_open_for_long() -> None:
    assert looks((0, 7, 7), (1, 7, 9), (2.9, 7, 9)) == []
    assert looks((0, 7, 7), (1, 7, 9), (2.9, 7, 9), (3, 7, 9)) == [OpRecordId(3, 7)]


def test_a_partition_that_moves_does_not_stand_still() -> None:
    busy = [(now / 2, 10 * now, 10 * now + 9) for now in range(20)]
    assert looks(*busy) == []


def test_a_transaction_that_holds_up_nobody_is_let_be() -> None:
    assert looks((0, 7, 8), (5, 7, 8)) == []
    assert looks((0, 7, 8), (5, 7, 8), (6, 7, 9)) == [OpRecordId(3, 7)]


def test_of_several_that_sleep_the_second_is_found_as_soon_as_the_first_has_ended() -> None:
    assert looks((0, 7, 12), (2, 7, 12), (2.5, 9, 14)) == [OpRecordId(3, 9)]
    assert looks((0, 7, 12), (2, 7, 12), (2.5, 12, 14)) == [], "it has just begun"


def test_after_a_pause_without_looks_nothing_is_held_against_a_partition_that_has_moved() -> None:
    assert looks((0, 7, 7), (500, 90, 95)) == []
