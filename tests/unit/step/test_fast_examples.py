"""Fast halves: their producers may commit them without the resolver, until their id is revoked.

Each rule by example; each step is compared with the model on the way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

from resolver.protocol import Outcome
from resolver.resolve.step import QueueDecisions

from . import records
from .altered import Change, altered_step
from .driver import Driver
from .records import Batch, Sent
from .short import checked, end, ended, refused
from .vocabulary import RANGE, Plan, Rules

TIMEOUT, INTERVAL, LATER = 6_000, 30_000, 7_000
ID = records.fast_id("a")
FAST = (0, "COMMIT", "END")
#: All who may end a half that its producer has said it may commit itself.
CHECK: dict[str, Any] = {"from_check": True}
OPERATOR: dict[str, Any] = {"actor": "anna"}


def fast_half(offset: int = 0, at: int = 0, name: str = "a", **more: Any) -> Sent:
    return records.half(offset, at, fast=name, **more)


def delivered(offset: int, at: int, *halves: int, **more: Any) -> Sent:
    return end(offset, at, *halves, delivered=True, **more)


def gives_up(offset: int, at: int, *halves: int) -> Sent:
    return end(offset, at, *halves, state="UNKNOWN", fast=False)


def revoked(offset: int, at: int, name: str = "a", **more: Any) -> Sent:
    return records.revoked(offset, at, records.fast_id(name), **more)


def is_fast(decisions: QueueDecisions) -> list[bool]:
    return [end.is_fast for end in decisions.ended]


@pytest.fixture
def queue() -> Driver:
    return Driver()


# Rule 7: when an id is revoked


@pytest.mark.parametrize("forged", [{"secret": "?"}, {"queue": 1}])
def test_a_revocation_that_another_wrote_only_moves_the_watermark(
    queue: Driver, forged: Any
) -> None:
    read = queue.at(LATER, fast_half(), revoked(0, LATER, **forged))
    assert (checked(read), read.refused, read.watermark_ms) == ([], [], LATER)
    assert read.revoke == (ID,)


def test_an_id_is_revoked_for_the_ops_behind_the_record_alone(queue: Driver) -> None:
    halves = [fast_half(0), fast_half(1), fast_half(2, name="b")]
    ops = [delivered(0, 5, 0), revoked(1, 6), end(2, 7, 0, 1), end(3, 8, 2)]
    read = queue.at(10, *halves, *ops)
    assert ended(read) == [FAST, (1, "COMMIT", "END")]
    assert (is_fast(read), read.duplicates) == ([True, False], 1)
    assert read.revoke == (records.fast_id("b"),)


def test_an_id_is_not_revoked_while_an_op_before_the_record_waits_for_its_half(
    queue: Driver,
) -> None:
    ops = [end(0, LATER, 1), delivered(1, LATER, 0), revoked(2, LATER)]
    waits = queue.at(LATER, fast_half(), *ops)
    assert (ended(waits), checked(waits)) == ([], [])
    read = queue.at(LATER + 1, records.half(1, 10))
    assert (ended(read), is_fast(read)) == ([(1, *FAST[1:]), FAST], [False, True])


def test_what_is_revoked_stays_so_and_what_is_forgotten_is_wanted_again(queue: Driver) -> None:
    queue.rules = Rules(file_reserved_ms=100_000, count_unanswered_checks=True)
    queue.at(10, revoked(0, 5))
    assert ended(queue.at(20, fast_half(), end(1, 15, 0))) == [FAST]
    assert ended(queue.at(100_010, fast_half(1, 90_000), end(2, 90_000, 1))) == [(1, *FAST[1:])]
    queue.at(100_011, fast_half(2, 100_000))
    due = queue.at(110_000, records.fence(3, 110_000))
    assert (checked(due), due.revoke) == ([], (ID,))


# Rule 10 and D4: nobody is asked about a half that may be committed fast


def test_nothing_is_sent_or_given_up_before_the_id_is_revoked_and_then_at_once(
    queue: Driver,
) -> None:
    queue.rules = Rules(transaction_check_max=1, file_reserved_ms=10_000)
    assert queue.at(10, fast_half()).wake_at_ms == TIMEOUT
    for op, now in enumerate(range(LATER, 10 * INTERVAL, INTERVAL)):
        due = queue.at(now, records.fence(op, now))
        assert (checked(due), ended(due), due.wake_at_ms) == ([], [], None)
        assert due.revoke == (ID,)
    free = queue.at(10 * INTERVAL, revoked(op + 1, 10 * INTERVAL))
    assert (checked(free), free.revoke) == ([(0, 1)], ())


def test_a_half_is_not_due_before_its_deadline_though_its_id_is_revoked(queue: Driver) -> None:
    half = fast_half(immunity=(b"20", 20))
    read = queue.at(LATER, half, fast_half(1), revoked(0, LATER))
    assert (checked(read), read.wake_at_ms) == ([(1, 1)], 20_000)


def test_held_halves_use_none_of_the_limits(queue: Driver) -> None:
    queue.rules = Rules(max_checks=1)
    read = queue.at(LATER, fast_half(0), fast_half(1), records.half(2, 1), records.fence(0, LATER))
    assert (checked(read), read.revoke) == ([(2, 1)], (ID,))


def _forgotten_while_a_check_is_out() -> Driver:
    """Return a queue with a half that was checked at 40,000, and is to be again at 70,000."""
    queue = Driver(Rules(file_reserved_ms=50_000))
    queue.at(10, revoked(0, 10))
    assert checked(queue.at(40_000, fast_half(at=30_000), records.fence(1, 40_000))) == [(0, 1)]
    queue.at(60_011, records.fence(2, 60_011))
    return queue


def test_a_group_that_is_back_is_not_asked_about_held_halves() -> None:
    queue = _forgotten_while_a_check_is_out()
    assert queue.at(70_001, records.fence(3, 70_001)).revoke == (ID,)
    queue.at(70_002, records.op(4, 70_002, [], "UNKNOWN", from_check=True))
    assert checked(queue.at(70_003, records.fence(5, 70_003))) == []
    assert checked(queue.at(70_004, revoked(6, 70_004))) == [(0, 2)]


def test_ids_are_wanted_by_the_oldest_wish_as_long_as_a_half_waits(queue: Driver) -> None:
    queue.at(10, fast_half(0, name="b"), fast_half(1), end(0, 5, 1))
    both = queue.at(LATER, records.fence(1, LATER))
    assert both.revoke == (ID, records.fast_id("b"))
    assert queue.at(LATER + 1, delivered(2, LATER, 1)).revoke == (records.fast_id("b"),)
    assert queue.at(LATER + 2, end(3, LATER, 0, state="ROLLBACK")).revoke == ()
    assert "fast" not in queue.state


def test_a_step_wants_a_thousand_ids_at_most(queue: Driver) -> None:
    halves = [fast_half(number, name=f"n{number}") for number in range(1_001)]
    read = queue.at(LATER, *halves, records.fence(0, LATER))
    assert len(read.revoke) == 1_000
    assert queue.at(LATER + 1, delivered(1, LATER, 0)).revoke[-1] == records.fast_id("n1000")


# D1: a delivered op


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("before", [[], [revoked(0, 5)], [gives_up(0, 5, 0)]])
def test_a_delivered_op_ends_a_half_as_committed_whatever_was_before(
    queue: Driver, before: list[Sent], apart: bool
) -> None:
    if apart:
        queue.at(10, fast_half(), *before)
        read = queue.at(20, delivered(1, 15, 0))
    else:
        read = queue.at(10, fast_half(), *before, delivered(1, 6, 0))
    assert (ended(read), is_fast(read), read.pending) == ([FAST], [True], 0)
    assert read.revoke == ()


def test_no_immunity_and_no_policy_refuses_what_is_delivered(queue: Driver) -> None:
    queue.rules = Rules(group_topics={"g0": []})
    read = queue.at(90_000, fast_half(immunity=(b"1", 1)), delivered(0, 80_000, 0))
    assert (ended(read), is_fast(read), read.refused) == ([FAST], [True], [])


def test_delivered_ops_take_no_room_among_messages(queue: Driver) -> None:
    queue.rules = Rules(max_output_bytes=6_000)
    many = range(10)
    queue.at(10, *(fast_half(offset, body=bytes(1_500)) for offset in many))
    read = queue.at(20, *(delivered(offset, 15, offset) for offset in many))
    assert len(read.ended) == len(many)
    assert [end.stored_half.half.body for end in read.ended] == [None] * len(many), (
        "nobody writes them"
    )


# D2 and rule 11: delivered, and should not have been


@pytest.mark.parametrize("apart", [False, True])
def test_a_half_without_fast_id_pends_on_after_a_delivered_op(queue: Driver, apart: bool) -> None:
    first, last = [records.half(0, 0), delivered(0, 5, 0)], end(1, 6, 0)
    told = [queue.at(10, *first), queue.at(20, last)] if apart else [queue.at(10, *first, last)]
    assert [one for read in told for one in refused(read)] == [("tx.op:3:0", 0, "DELIVERED_TWICE")]
    assert (ended(told[-1]), is_fast(told[-1])) == ([FAST], [False])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("first", [{}, {"state": "ROLLBACK"}, OPERATOR, {"delivered": True}])
def test_a_delivered_op_for_a_half_that_has_ended_is_a_duplicate_of_a_fast_end_alone(
    queue: Driver, first: dict[str, Any], apart: bool
) -> None:
    sent, again = [fast_half(), revoked(0, 4), end(1, 5, 0, **first)], delivered(2, 6, 0)
    read = [queue.at(10, *sent), queue.at(20, again)][-1] if apart else queue.at(10, *sent, again)
    is_repeated = "delivered" in first
    assert read.duplicates == is_repeated
    assert refused(read) == ([] if is_repeated else [("tx.op:3:2", 0, "DELIVERED_TWICE")])


def test_after_a_fast_end_other_ends_are_judged_as_after_any_commit(queue: Driver) -> None:
    queue.at(10, fast_half(), delivered(0, 5, 0))
    read = queue.at(20, end(1, 15, 0), end(2, 16, 0, state="ROLLBACK"), gives_up(3, 17, 0))
    assert (read.duplicates, refused(read)) == (1, [("tx.op:3:2", 0, "CONFLICTING_END")])


@pytest.mark.parametrize(
    ("wrong", "reason"), [({"group": "g1"}, "GROUP_MISMATCH"), ({}, "TRANSACTION_MISMATCH")]
)
def test_a_delivered_op_has_to_name_its_half_rightly(
    queue: Driver, wrong: dict[str, Any], reason: str
) -> None:
    op = records.op(0, 5, [(0, "id-0" if wrong else "?")], delivered=True, **wrong)
    read = queue.at(10, fast_half(), op)
    assert (refused(read), read.pending) == ([("tx.op:3:0", 0, reason)], 1)


def test_a_rebuild_takes_a_fast_end_as_such(queue: Driver) -> None:
    queue.settle({0: Outcome.COMMIT, 1: Outcome.COMMIT}, 5, {0})
    read = queue.at(10, fast_half(0), fast_half(1), delivered(0, 6, 0, 1))
    assert (read.duplicates, refused(read)) == (1, [("tx.op:3:0", 1, "DELIVERED_TWICE")])


def test_which_ends_were_fast_is_kept_where_there_are_some_and_forgotten_with_them() -> None:
    queue = Driver(Rules(file_reserved_ms=1_000))
    queue.at(10, records.half(0, 0), end(0, 5, 0))
    plain = len(queue.state["settled/0"])
    queue.at(20, fast_half(1, 15), delivered(1, 16, 1))
    assert len(queue.state["settled/0"]) == plain + RANGE // 8
    queue.at(30, records.half(RANGE, 25))
    queue.at(2_000)
    assert "settled/0" not in queue.state


# D3 and rule 11: ends that wait


@pytest.mark.parametrize("state", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("who", [{}, CHECK, OPERATOR])
def test_all_ends_wait_but_the_application_s_rollback(
    queue: Driver, who: dict[str, Any], state: str
) -> None:
    read = queue.at(10, fast_half(), end(0, 5, 0, state=state, **who))
    if state == "ROLLBACK" and not who:
        assert (ended(read), read.revoke) == ([(0, "ROLLBACK", "END")], ())
        return
    assert (ended(read), read.revoke, read.wake_at_ms) == ([], (ID,), None)
    free = queue.at(30, revoked(1, 25))
    source = "CHECK" if who == CHECK else "OPERATOR" if who == OPERATOR else "END"
    assert ended(free) == [(0, state, source)]
    assert [(e.op_offset, e.ended_at_ms, e.is_fast) for e in free.ended] == [(0, 5, False)]
    assert (free.revoke, free.pending) == ((), 0)


@pytest.mark.parametrize("apart", [False, True])
def test_the_first_end_that_waits_wins_and_later_ones_come_after_it(
    queue: Driver, apart: bool
) -> None:
    first = [fast_half(), end(0, 5, 0, state="ROLLBACK", **CHECK)]
    later = [
        end(1, 6, 0),
        end(2, 7, 0, state="ROLLBACK"),
        end(3, 8, 0, state="UNKNOWN", **OPERATOR),
        end(4, 9, 0, group="g1"),
    ]
    told = [queue.at(10, *first), queue.at(20, *later)] if apart else [queue.at(10, *first, *later)]
    conflicts = [(f"tx.op:3:{op}", 0, "CONFLICTING_END") for op in (1, 4)]
    assert (refused(told[-1]), told[-1].duplicates) == (conflicts, 1)
    free = queue.at(30, revoked(5, 25), delivered(6, 26, 0))
    assert ended(free) == [(0, "ROLLBACK", "CHECK")]
    assert refused(free) == [("tx.op:3:6", 0, "DELIVERED_TWICE")]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("who", [{}, {"state": "ROLLBACK", **OPERATOR}])
def test_a_delivered_op_comes_before_an_end_that_waits(
    queue: Driver, who: dict[str, Any], apart: bool
) -> None:
    """The plain commit of a producer that does not know whether its fast one came through."""
    wait, fast = [fast_half(), end(0, 5, 0, **who)], [delivered(1, 6, 0), revoked(2, 7)]
    told = [queue.at(10, *wait), queue.at(20, *fast)] if apart else [queue.at(10, *wait, *fast)]
    assert (ended(told[-1]), is_fast(told[-1])) == ([FAST], [True])
    assert told[-1].duplicates == (not who)
    assert refused(told[-1]) == ([("tx.op:3:0", 0, "CONFLICTING_END")] if who else [])
    assert "fast" not in queue.state or not msgpack.unpackb(queue.state["fast"])[0]


def test_a_late_end_does_not_wait(queue: Driver) -> None:
    half = fast_half(immunity=(b"7", 7))
    read = queue.at(9_000, half, end(0, 7_001, 0), end(1, 7_002, 0, **CHECK))
    assert (refused(read), read.revoke) == ([("tx.op:3:0", 0, "LATE_END")], (ID,))
    assert ended(queue.at(9_001, revoked(2, 9_001))) == [(0, "COMMIT", "CHECK")]


def test_an_end_that_waits_is_not_late_by_other_settings(queue: Driver) -> None:
    queue.rules = Rules(transaction_timeout_ms=60_000)
    queue.at(50_000, fast_half(immunity=(b"7", 7)), end(0, 45_000, 0))
    queue.rules = Rules()
    assert ended(queue.at(50_001, revoked(1, 50_000))) == [FAST]


def test_an_answer_that_waits_is_an_answer() -> None:
    queue = _forgotten_while_a_check_is_out()
    answer = queue.at(60_012, end(3, 60_012, 0, **CHECK))
    assert [event.value for _, event in answer.check_counts] == ["COMMIT_MESSAGE"]
    assert (answer.ended, answer.revoke) == ([], (ID,))
    free = queue.at(60_013, revoked(4, 60_013))
    assert [(e.checks, e.answered) for e in free.ended] == [(1, 1)]
    assert free.check_counts == {}


@pytest.mark.parametrize("apart", [False, True])
def test_a_half_that_gave_up_is_as_one_whose_id_is_revoked(queue: Driver, apart: bool) -> None:
    """For this half alone: the others of the id go on fast."""
    halves = [fast_half(0), fast_half(1), fast_half(2)]
    ops = [end(0, 4, 0), gives_up(1, 5, 0, 1), end(2, 6, 1, 2)]
    batches = [[*halves, ops[0]], *([op] for op in ops[1:])] if apart else [[*halves, *ops]]
    told = [queue.at(10 + number, *sent) for number, sent in enumerate(batches)]
    assert [e for read in told for e in ended(read)] == [FAST, (1, "COMMIT", "END")]
    assert (told[-1].revoke, told[-1].pending) == ((ID,), 1)


def test_a_half_that_gave_up_is_asked_about_in_time(queue: Driver) -> None:
    queue.at(10, fast_half(0), fast_half(1, 1), gives_up(0, 5, 0))
    assert checked(queue.at(LATER, records.fence(1, LATER))) == [(0, 1)]
    assert checked(queue.at(LATER + 1, gives_up(2, LATER + 1, 1))) == [(1, 1)]


def test_giving_up_needs_group_and_transaction_id(queue: Driver) -> None:
    wrong = records.op(0, 5, [(0, "?")], "UNKNOWN", fast=False)
    stranger = end(1, 6, 0, state="UNKNOWN", fast=False, group="g1")
    read = queue.at(LATER, fast_half(), wrong, stranger, records.fence(2, LATER))
    reasons = [reason for _, _, reason in refused(read)]
    assert (reasons, checked(read)) == (["TRANSACTION_MISMATCH", "GROUP_MISMATCH"], [])


def test_ends_that_waited_stand_in_the_order_of_their_ops_before_those_of_the_batch(
    queue: Driver,
) -> None:
    queue.at(10, *(fast_half(offset) for offset in range(3)), end(0, 4, 2), end(1, 5, 0))
    read = queue.at(20, end(2, 14, 1), revoked(3, 15), records.half(3, 11), end(4, 16, 3))
    assert [offset for offset, _, _ in ended(read)] == [2, 0, 1, 3]


def test_ends_that_waited_come_a_batch_s_worth_at_a_time() -> None:
    queue = Driver(Rules(max_output_bytes=4_000))
    queue.at(10, *(fast_half(offset, body=bytes(1_500)) for offset in range(5)))
    for offset in range(5):
        queue.at(20, end(offset, 15, offset))
    told = [queue.at(90_000, revoked(5, 90_000))]
    while told[-1].wake_at_ms == 0:
        told.append(queue.at(90_000 + len(told)))
    assert [[offset for offset, _, _ in ended(read)] for read in told] == [[0, 1], [2, 3], [4]]
    assert [read for read in told if read.checks or read.revoke] == []
    assert "fast" in queue.state


def test_an_end_that_waits_takes_no_more_than_its_element() -> None:
    queue = Driver()
    queue.at(10, fast_half(), end(0, 5, 0, actor="a" * 10_000, remark="r" * 10_000))
    assert len(queue.state["pending/0"]) < 1_000


# Rule 13: ops that come before their halves


def test_a_delivered_op_waits_for_its_half(queue: Driver) -> None:
    early = queue.at(10, delivered(0, 5, 0), revoked(1, 6))
    assert (early.refused, early.ended) == ([], [])
    read = queue.at(20, fast_half(0, 1))
    assert (ended(read), is_fast(read)) == ([FAST], [True])


# D5: what is kept


def test_fast_facts_are_kept_with_their_segments_and_ids_with_the_queue(queue: Driver) -> None:
    queue.at(10, records.half(0, 0), fast_half(RANGE), fast_half(RANGE + 1), end(0, 5, RANGE))
    assert len(msgpack.unpackb(queue.state["pending/0"])) == 3
    assert len(msgpack.unpackb(queue.state["pending/1"])) == 5
    assert "fast" in queue.state
    read = queue.at(20, revoked(1, 15), delivered(2, 16, RANGE + 1))
    assert [end.stored_half.offset for end in read.ended] == [RANGE, RANGE + 1]
    assert "pending/1" not in queue.state


def test_a_revocation_reaches_more_halves_than_a_batch_looks_at(tmp_path: Path) -> None:
    """Batch by batch, so that the memory that a batch takes has a limit."""
    small = [
        Change("state/head.py", "SEGMENT = 4096", "SEGMENT = 4", "segments of 4 halves"),
        Change("fast/ids.py", "WINDOW = 65_536", "WINDOW = 8", "few halves a batch"),
    ]
    with altered_step(small, tmp_path) as code:
        queue = Driver(code=code)
        halves = [fast_half(offset) for offset in range(12)]
        waits = Batch(LATER, Plan(12, 0, 2), halves, [records.fence(0, LATER), end(1, LATER, 11)])
        assert queue.read(waits).revoke == (ID,)
        first = queue.read(Batch(LATER, Plan(12, 2, 3), [], [revoked(2, LATER)]))
        assert [offset for offset, _ in checked(first)] == list(range(8))
        assert (first.wake_at_ms, first.revoke, ended(first)) == (0, (), [])
        second = queue.read(Batch(LATER, Plan(12, 3, 3)))
        assert [offset for offset, _ in checked(second)] == [8, 9, 10]
        assert ended(second) == [(11, "COMMIT", "END")]
        assert second.wake_at_ms == LATER + INTERVAL


# D6 and rule 14: ops that were deleted before they were read


def _after_losses(queue: Driver, *sent: Sent) -> QueueDecisions:
    """Read the first batch of a rebuild, of an op partition that begins at offset 9."""
    halves = [one for one in sent if hasattr(one.means, "half")]
    ops = [one for one in sent if not hasattr(one.means, "half")]
    return queue.check(Batch(10_000, Plan(10, 9, 9 + len(ops)), halves, ops))


@pytest.mark.parametrize(
    ("op", "outcome", "reason"),
    [
        (delivered(10, 7_000, 0), [FAST], []),
        (end(10, 7_000, 0), [], ["CONFLICTING_END"]),
        (end(10, 7_000, 0, state="ROLLBACK"), [], ["CONFLICTING_END"]),
        (end(10, 7_000, 0, **CHECK), [], ["CONFLICTING_END"]),
        (end(10, 7_000, 0, state="ROLLBACK", **OPERATOR), [(0, "ROLLBACK", "OPERATOR")], []),
    ],
)
def test_where_ops_are_lost_a_half_ends_by_its_producer_or_an_operator(
    queue: Driver, op: Sent, outcome: Any, reason: list[str]
) -> None:
    """A lost op may have ended it: so nobody is asked about it, however long it pends."""
    first = _after_losses(queue, fast_half(0, 50), fast_half(1, 51), records.fence(9, 50))
    assert (first.ended, first.wake_at_ms) == ([], TIMEOUT + 50)
    told = [queue.at(20_000, op), queue.at(20_001, revoked(11, 20_000))]
    assert [e for read in told for e in ended(read)] == outcome
    assert [r for read in told for _, _, r in refused(read)] == reason
    assert [checked(read) for read in told] == [[], [(1, 1)]]
    last = queue.at(90_000, records.fence(12, 90_000))
    assert (checked(last), last.revoke) == ([(1, 2)], ())


def test_where_ops_are_lost_an_operator_s_end_waits_for_the_revocation(queue: Driver) -> None:
    _after_losses(queue, fast_half(0, 50), records.fence(9, 50))
    assert queue.at(20_000, records.fence(10, 20_000)).revoke == ()
    assert queue.at(20_001, end(11, 20_001, 0, **OPERATOR)).revoke == (ID,)
    assert ended(queue.at(20_002, revoked(12, 20_002))) == [(0, "COMMIT", "OPERATOR")]


def test_an_answer_counts_although_a_delivered_op_overtakes_it() -> None:
    """The revocation before its check is forgotten by then, so the answer would have waited."""
    queue = Driver(Rules(file_reserved_ms=20_000))
    queue.at(100, fast_half(0, 0))
    queue.at(7_000, records.fence(0, 7_000))
    assert checked(queue.at(7_001, revoked(1, 7_001))) == [(0, 1)]
    queue.at(28_000, records.fence(2, 28_000))
    read = queue.at(28_001, end(3, 28_001, 0, **CHECK), delivered(4, 28_001, 0))
    assert ended(read) == [FAST]
    assert [one.answered for one in read.ended] == [1]


def test_after_a_rebuild_ops_may_be_lost_of_all_halves_before_it(queue: Driver) -> None:
    """The op partition may have been made again, or have lost its last records."""
    queue.settle({}, 0)
    queue.at(10_000, fast_half(0, 50), fast_half(1, 9_000), records.fence(0, 10_000))
    later = fast_half(2, 10_001)
    assert queue.at(20_000, later, records.fence(1, 20_000)).revoke == (ID,)
    read = queue.at(20_001, revoked(2, 20_001), delivered(3, 20_001, 1))
    assert (ended(read), checked(read)) == ([(1, *FAST[1:])], [(2, 1)])


def test_losses_concern_no_half_without_fast_id(queue: Driver) -> None:
    read = _after_losses(queue, records.half(0, 0), records.half(1, 0), end(9, LATER, 1))
    assert (ended(read), checked(read)) == ([(1, "COMMIT", "END")], [(0, 1)])


def test_losses_are_those_before_the_first_op_record_whenever_that_comes(queue: Driver) -> None:
    """The partition may be empty at first, as where all of it was deleted."""
    _after_losses(queue, fast_half(0, 50), fast_half(1, 8_000))
    queue.at(11_000, fast_half(10, 8_001), revoked(9, 8_000))
    read = queue.at(20_000, records.fence(10, 20_000))
    assert [offset for offset, _ in checked(read)] == [10]


def test_a_queue_that_was_read_from_its_beginning_has_lost_nothing(queue: Driver) -> None:
    """Whatever its first records were: here three of an aborted transaction."""
    queue.check(Batch(10, Plan(1, 0, 3), [fast_half()]))
    read = queue.at(LATER, revoked(3, LATER))
    assert checked(read) == [(0, 1)]
