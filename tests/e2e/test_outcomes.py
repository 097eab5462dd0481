"""What becomes of transactions, end to end: a resolver on a real broker."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.patience import FACTOR
from tests.support.world import COMMIT, ROLLBACK, UNKNOWN, Sent, World, header, value_of

from .conftest import Resolving

#: Short, but in the proportions of the defaults.
FAST: dict[str, Any] = {
    "transaction_timeout_ms": 1_000,
    "transaction_check_interval_ms": 1_500,
    "check_backoff_max_ms": 3_000,
}
PATIENT: dict[str, Any] = {"transaction_timeout_ms": 3_600_000}


@pytest.mark.gate
def test_the_worked_example_of_rocketmq(world: World, resolving: Resolving) -> None:
    """1 to 3 committed; 4 checked, then committed; only 7's op of 5 to 7: 5 and 6 checked."""
    # A slow machine may need more than a second to end the others.
    with resolving(**FAST | {"transaction_timeout_ms": int(5_000 * FACTOR)}):
        one, two, three, four, five, six, seven = world.send_halves(
            world.message(body=str(number).encode()) for number in range(1, 8)
        )
        world.end(one, two, three)
        world.end(seven)
        at_once = {message.value() for message in world.committed(4)}
        assert at_once == {b"1", b"2", b"3", b"7"}

        asked = {header(check, "HALF_OFFSET") for check in world.checks(3)}
        assert asked == {four.half_id, five.half_id, six.half_id}
        world.end(four, six, from_check=True)
        world.end(five, state=ROLLBACK, from_check=True)

        outcomes = world.outcomes(7)
    ends = [outcomes[sent.half.transaction_id] for sent in (four, five, six)]
    assert ends == ["COMMIT", "ROLLBACK", "COMMIT"]
    assert sorted(value_of(message) for message in world.committed(6)) == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"6",
        b"7",
    ]


@pytest.mark.gate
def test_the_first_end_wins(world: World, resolving: Resolving) -> None:
    with resolving(**PATIENT):
        twice, then_rollback, then_commit = world.send_halves(world.message() for _ in range(3))
        world.end(twice, then_rollback)
        world.end(then_commit, state=ROLLBACK)
        outcomes = world.outcomes(3)
        world.end(twice)
        conflicts = [
            world.end(then_rollback, state=ROLLBACK),
            world.end(then_commit, state=COMMIT),
        ]
        refused = world.quarantined(2)

    assert list(outcomes.values()).count("COMMIT") == 2
    assert [header(one, "REASON") for one in refused] == ["CONFLICTING_END"] * 2
    op = world.names.op
    assert {header(one, "SOURCE") for one in refused} == {
        f"{op}:{conflict.partition()}:{conflict.offset()}" for conflict in conflicts
    }
    assert len(world.committed(2)) == 2
    assert len(world.resolutions(3)) == 3


@pytest.mark.gate
def test_after_the_last_answered_check_it_is_discarded_once(
    world: World, resolving: Resolving
) -> None:
    with resolving(**FAST, transaction_check_max=2):
        sent = world.send_half()
        checks = 0
        while not world.reader(world.names.discarded).all():
            if len(world.reader(world.names.check(world.group)).all()) > checks:
                checks += 1
                world.end(sent, state=UNKNOWN, from_check=True)
        (discarded,) = world.discarded(1)
        late = world.end(sent)
        (refused,) = world.quarantined(1)

    (said,) = world.resolutions(1)
    assert (said.outcome, said.source, said.answered) == ("DISCARD", "LIMIT", 2)
    assert header(discarded, "REASON") == "CHECK_MAX"
    assert header(discarded, "TRANSACTION_CHECK_TIMES") == str(said.checks)
    assert header(refused, "REASON") == "CONFLICTING_END"
    assert header(refused, "SOURCE") == f"{world.names.op}:0:{late.offset()}"
    assert world.reader(world.real).all() == []


def test_unanswered_checks_count_where_the_settings_say_so(
    world: World, resolving: Resolving, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "resolver"),
        resolving(**FAST, transaction_check_max=2, count_unanswered_checks=True),
    ):
        world.send_half()
        (said,) = world.resolutions(1)

    assert (said.outcome, said.source, said.checks, said.answered) == ("DISCARD", "LIMIT", 2, 0)
    assert [header(check, "TRANSACTION_CHECK_TIMES") for check in world.checks(2)] == ["1", "2"]
    assert len(world.discarded(1)) == 1
    assert "nobody answers for group orders: 2 checks unanswered in" in caplog.text
    assert "2 sent, 1 discarded. Start one of its producers" in caplog.text


def test_unanswered_checks_back_off_and_discard_nothing(
    world: World, resolving: Resolving, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "resolver"), resolving(**FAST, transaction_check_max=1):
        sent = world.send_half()
        times = sorted(check.timestamp()[1] for check in world.checks(4))
        world.end(sent, from_check=True)
        (said,) = world.resolutions(1)

    assert (said.outcome, said.source, said.answered) == ("COMMIT", "CHECK", 1)
    # An interval, then twice as much, which is the longest.
    due_after = [0, 1_500, 1_500 + 3_000, 1_500 + 3_000 + 3_000]
    first_due = sent.stored_at_ms + FAST["transaction_timeout_ms"]
    assert all(at > first_due + wait for at, wait in zip(times, due_after, strict=False))
    assert "answered 1 COMMIT_MESSAGE, 0 ROLLBACK_MESSAGE, 0 UNKNOWN" in caplog.text
    assert f"after check: queue 0, half offset {sent.offset + 1}, op offset" in caplog.text
    assert "0 pending, 0 duplicates" in caplog.text


def test_an_immunity_of_its_own_puts_the_first_check_off(
    world: World, resolving: Resolving
) -> None:
    """A whole number above 0 counts; what is none means the timeout. Waiting uses up no check."""
    written = [b"7", b"-1", b"0", b"100.5", None]
    with resolving(**FAST):
        sent = [_with_immunity(world, value) for value in written]
        seven = sent[0]
        checks = world.checks(len(sent))
        while seven.half_id not in {header(check, "HALF_OFFSET") for check in checks}:
            checks = world.checks(len(checks) + 1)

    first: dict[str | None, Any] = {}
    for check in sorted(checks, key=lambda check: check.timestamp()[1]):
        first.setdefault(header(check, "HALF_OFFSET"), check)
    waited = {one.half_id: first[one.half_id].timestamp()[1] - one.stored_at_ms for one in sent}
    assert waited[seven.half_id] > 7_000
    assert all(waited[one.half_id] > FAST["transaction_timeout_ms"] for one in sent[1:])
    assert header(first[seven.half_id], "TRANSACTION_CHECK_TIMES") == "1"


def _with_immunity(world: World, value: bytes | None) -> Sent:
    """Send a half whose immunity is written by hand."""
    record = world.message().to_record(world.names.half, 0)
    if value is not None:
        record.headers.append(("CHECK_IMMUNITY_TIME_IN_SECONDS", value))
    stored = world.produce([record])[0]
    return Sent.of(world.message(), stored)


def test_a_late_end_of_a_half_with_its_own_immunity_leaves_it_to_the_check(
    world: World, resolving: Resolving
) -> None:
    with resolving(**FAST):
        sent = world.send_half(immunity_seconds=1)
        world.checks(1)
        world.end(sent)
        (refused,) = world.quarantined(1)
        world.end(sent, state=ROLLBACK, from_check=True)
        (said,) = world.resolutions(1)

    assert header(refused, "REASON") == "LATE_END"
    assert (said.outcome, said.source) == ("ROLLBACK", "CHECK")
