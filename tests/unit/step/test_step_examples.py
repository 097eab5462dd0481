"""Single rules of the step, by example; each step is compared with the model on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.protocol import DiscardReason, Outcome, QuarantineReason, Source
from resolver.resolve.step import QueueDecisions

from . import records
from .altered import Change, altered_step
from .driver import Driver
from .records import Batch
from .short import checked, end, ended, refused
from .vocabulary import Plan, Rules

TIMEOUT, INTERVAL, HOUR = 6_000, 30_000, 3_600_000
QUICK = Rules(transaction_check_max=3, check_backoff_max_ms=INTERVAL)


def test_the_worked_example_of_rocketmq() -> None:
    queue = Driver()
    halves = [records.half(offset, 0) for offset in range(1, 8)]
    first = queue.at(100, *halves, end(0, 50, 1, 2, 3), end(1, 60, 7))
    commits = [(offset, "COMMIT", "END") for offset in (1, 2, 3, 7)]
    assert ended(first) == commits
    assert first.pending == 3
    assert first.wake_at_ms == TIMEOUT

    due = queue.at(TIMEOUT + 1, records.fence(2, TIMEOUT + 1))
    assert checked(due) == [(4, 1), (5, 1), (6, 1)]
    answers = [
        end(3, 7_000, 4, 5, from_check=True),
        end(4, 7_100, 6, state="ROLLBACK", from_check=True),
    ]
    last = queue.at(7_200, *answers)
    assert ended(last) == [(4, "COMMIT", "CHECK"), (5, "COMMIT", "CHECK"), (6, "ROLLBACK", "CHECK")]
    assert [(e.checks, e.answered) for e in last.ended] == [(1, 1)] * 3
    assert last.pending == 0
    assert last.wake_at_ms is None


def test_a_half_that_comes_again_is_not_taken_for_another() -> None:
    """As where a batch is decided on another state than the one that it began with."""
    queue = Driver()
    queue.at(100, records.half(0, 0), records.half(1, 0))
    with pytest.raises(ValueError, match="read up to 2, and 1 comes again"):
        queue.at(200, records.half(1, 0))


@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "two batches"])
@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        ("COMMIT", "COMMIT", False),
        ("ROLLBACK", "ROLLBACK", False),
        ("ROLLBACK", "COMMIT", True),
        ("COMMIT", "ROLLBACK", True),
    ],
)
def test_the_first_end_wins(first: str, second: str, conflict: bool, apart: bool) -> None:
    queue = Driver()
    sent = [records.half(0, 0), end(0, 1, 0, state=first)]
    again = end(1, 2, 0, state=second)
    batches = [queue.at(10, *sent), queue.at(20, again)] if apart else [queue.at(10, *sent, again)]
    assert [e for decisions in batches for e in ended(decisions)] == [(0, first, "END")]
    expected = [("tx.op:3:1", 0, "CONFLICTING_END")] if conflict else []
    assert refused(batches[-1]) == expected
    assert batches[-1].duplicates == (0 if conflict else 1)


@pytest.mark.parametrize("state", ["COMMIT", "ROLLBACK", "UNKNOWN"])
def test_an_end_after_a_discard_conflicts(state: str) -> None:
    queue = Driver(Rules(transaction_check_max=1, count_unanswered_checks=True))
    queue.at(10, records.half(0, 0))
    queue.at(7_000, records.fence(0, 7_000))
    discard = queue.at(50_000, records.fence(1, 50_000))
    assert ended(discard) == [(0, "DISCARD", "LIMIT")]
    late = queue.at(51_000, end(2, 50_500, 0, state=state, from_check=True))
    assert late.ended == []
    expected = [] if state == "UNKNOWN" else [("tx.op:3:2", 0, "CONFLICTING_END")]
    assert refused(late) == expected


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        (None, TIMEOUT),
        ((b"7", 7), 7_000),
        ((b"-1", None), TIMEOUT),
        ((b"0", None), TIMEOUT),
        ((b"100.5", None), TIMEOUT),
        ((b"999999999999999999", 999_999_999_999_999_999), Rules().file_reserved_ms),
    ],
)
def test_an_immunity_is_waited_out_and_uses_up_no_check(header: Any, wait_ms: int) -> None:
    queue = Driver()
    start = queue.at(1_000, records.half(0, 500, immunity=header))
    assert start.wake_at_ms == 500 + wait_ms
    assert checked(queue.at(500 + wait_ms, records.fence(0, 500 + wait_ms))) == []
    assert checked(queue.at(501 + wait_ms, records.fence(1, 501 + wait_ms))) == [(0, 1)]


@pytest.mark.parametrize(
    ("immunity", "at", "late"),
    [(7, 7_000, False), (7, 7_001, True), (2, 6_000, False), (2, 6_001, True)],
)
def test_an_end_later_than_its_immunity_and_the_timeout_is_refused(
    immunity: int, at: int, late: bool
) -> None:
    header = (str(immunity).encode(), immunity)
    decisions = Driver().at(9_000, records.half(0, 0, immunity=header), end(0, at, 0))
    assert ended(decisions) == ([] if late else [(0, "COMMIT", "END")])
    assert refused(decisions) == ([("tx.op:3:0", 0, "LATE_END")] if late else [])


@pytest.mark.parametrize("who", [{"from_check": True}, {"actor": "anna"}])
def test_an_answer_or_an_operator_is_never_late(who: dict[str, Any]) -> None:
    half = records.half(0, 0, immunity=(b"7", 7))
    decisions = Driver().at(90_000, half, end(0, 80_000, 0, **who))
    assert ended(decisions) == [(0, "COMMIT", "CHECK" if "from_check" in who else "OPERATOR")]


def _rounds(queue: Driver, rounds: int, *, answered: bool) -> list[QueueDecisions]:
    """Let a check fall due again and again; answer each with UNKNOWN, or none."""
    told, now, op = [], TIMEOUT + 1, 0
    for _ in range(rounds):
        told.append(queue.at(now, records.fence(op, now)))
        if answered:
            queue.at(now + 10, end(op + 1, now + 5, 0, state="UNKNOWN", from_check=True))
        now, op = now + INTERVAL + 1, op + 2
    return told


@pytest.mark.parametrize(("unanswered_count", "answered"), [(True, False), (False, True)])
def test_exactly_check_max_checks_and_then_one_discard(
    unanswered_count: bool, answered: bool
) -> None:
    queue = Driver(Rules(transaction_check_max=3, count_unanswered_checks=unanswered_count))
    queue.at(1, records.half(0, 0))
    told = _rounds(queue, 5, answered=answered)
    assert [checked(decisions) for decisions in told] == [[(0, 1)], [(0, 2)], [(0, 3)], [], []]
    assert [ended(d) for d in told] == [[], [], [], [(0, "DISCARD", "LIMIT")], []]
    discard = told[3].ended[0]
    assert discard.reason is DiscardReason.CHECK_MAX
    assert (discard.checks, discard.answered) == (3, 3 if answered else 0)
    assert (discard.op_offset, discard.ended_at_ms) == (None, None)


def test_by_default_unanswered_checks_do_not_count() -> None:
    queue = Driver(QUICK)
    queue.at(1, records.half(0, 0))
    told = _rounds(queue, 10, answered=False)
    assert [checked(decisions) for decisions in told] == [[(0, n)] for n in range(1, 11)]


def test_unanswered_checks_back_off_by_doubling_until_an_answer_comes() -> None:
    queue = Driver(Rules(check_backoff_max_ms=100_000))
    wakes = [queue.at(1, records.half(0, 0)).wake_at_ms]
    for op in range(5):
        now = (wakes[-1] or 0) + 1
        wakes.append(queue.at(now, records.fence(op, now)).wake_at_ms)
    # From the third on at a multiple of half the wait.
    assert wakes == [6_000, 36_001, 90_000, 150_000, 250_000, 350_000]
    queue.at(now + 9, end(5, now + 5, 0, state="UNKNOWN", from_check=True))
    now = (wakes[-1] or 0) + 1
    assert queue.at(now, records.fence(6, now)).wake_at_ms == now + INTERVAL


def test_halves_that_nobody_answers_for_fall_due_together() -> None:
    queue = Driver(Rules())
    for number in range(5):
        decisions = queue.at(1 + 1_000 * number, records.half(number, 1_000 * number))
    rounds = []
    for op in range(30):
        now = (decisions.wake_at_ms or 0) + 1
        decisions = queue.at(now, records.fence(op, now))
        rounds.append(len(checked(decisions)))
    assert rounds[:10] == [1] * 10  # the first checks, and the second, one by one
    assert rounds[-5:] == [5] * 5


def test_an_unknown_without_from_check_answers_nothing() -> None:
    """An agent sends one where its listener failed: the checks back off, and none is used up."""
    queue = Driver(Rules(transaction_check_max=1, check_backoff_max_ms=100_000))
    wakes = [queue.at(1, records.half(0, 0)).wake_at_ms]
    for op in range(0, 8, 2):
        now = (wakes[-1] or 0) + 1
        asked = queue.at(now, records.fence(op, now))
        assert (checked(asked), ended(asked)) == ([(0, op // 2 + 1)], [])
        wakes.append(asked.wake_at_ms)
        failed = queue.at(now + 9, end(op + 1, now + 5, 0, state="UNKNOWN"))
        assert (refused(failed), ended(failed)) == ([], [])
    assert wakes == [6_000, 36_001, 90_000, 150_000, 250_000]


def test_what_nobody_was_asked_about_is_not_given_up_however_old() -> None:
    queue = Driver(Rules(transaction_check_max=1, count_unanswered_checks=True))
    queue.at(1, records.half(0, 0))
    later = Rules().file_reserved_ms * 2
    asked = queue.at(later, records.fence(0, later))
    assert (checked(asked), ended(asked)) == ([(0, 1)], [])
    early = queue.at(later + INTERVAL, records.fence(1, later + INTERVAL))
    assert (checked(early), ended(early)) == ([], [])
    given_up = queue.at(later + INTERVAL + 1, records.fence(2, later + INTERVAL + 1))
    assert ended(given_up) == [(0, "DISCARD", "LIMIT")]


def test_one_asked_and_older_than_is_reserved_expires() -> None:
    queue = Driver(Rules(file_reserved_ms=40_000))
    queue.at(1, records.half(0, 0))
    queue.at(7_000, records.fence(0, 7_000))
    given_up = queue.at(41_000, records.fence(1, 41_000))
    assert [e.reason for e in given_up.ended] == [DiscardReason.EXPIRED]


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_no_check_for_a_half_whose_op_was_stored_before_its_deadline(rows: int) -> None:
    """A backlog stored long ago, read a few rows at a time, the ops a while behind."""
    halves = [records.half(offset, offset * 1_000) for offset in range(40)]
    ops = [end(offset, offset * 1_000 + TIMEOUT - 1, offset) for offset in range(40)]
    queue, now = Driver(), 10**9
    told = [queue.at(now, *halves[at : at + rows]) for at in range(0, 40, rows)]
    told += [queue.at(now, *ops[at : at + rows]) for at in range(0, 40, rows)]
    assert [checked(decisions) for decisions in told if decisions.checks] == []
    assert sum(len(decisions.ended) for decisions in told) == 40


def test_an_idle_op_topic_is_asked_for_a_fence_and_the_fence_lets_the_check_out() -> None:
    queue = Driver()
    assert queue.at(100, records.half(0, 0)).wake_at_ms == TIMEOUT
    overdue = queue.at(50_000)
    assert (checked(overdue), overdue.wake_at_ms) == ([], TIMEOUT)
    assert checked(queue.at(50_100, records.fence(0, 50_050))) == [(0, 1)]


def test_an_op_that_is_read_before_its_half_waits_for_it_and_all_behind_it_too() -> None:
    queue = Driver()
    sent = [records.half(0, 0), end(0, 5, 0), end(1, 6, 0, 2), end(2, 7, 0, state="ROLLBACK")]
    early = queue.at(10, *sent)
    assert (ended(early), early.watermark_ms) == ([(0, "COMMIT", "END")], 5)
    assert (early.refused, early.wake_at_ms) == ([], 0)
    still = queue.at(20, records.half(1, 2))
    assert (still.ended, still.duplicates, still.wake_at_ms) == ([], 0, 0)
    read = queue.at(30, records.half(2, 3), records.half(3, 4))
    assert (ended(read), read.duplicates) == ([(2, "COMMIT", "END")], 1)
    assert refused(read) == [("tx.op:3:2", 0, "CONFLICTING_END")]
    assert read.watermark_ms == 7


@given(st.permutations(range(6)), st.integers(0, 6), st.booleans())
def test_in_whatever_order_ops_come_and_however_early_each_half_ends_as_its_op_says(
    order: list[int], read: int, early: bool
) -> None:
    """Ops of different halves stand in any order, and are read before or after their halves."""
    states = ["COMMIT", "ROLLBACK"]
    ops = [end(at, 10 + at, half, state=states[half % 2]) for at, half in enumerate(order)]
    halves = [records.half(offset, offset) for offset in range(6)]
    queue = Driver()
    batches = [ops[:read], halves, ops[read:]] if early else [halves[:read], ops, halves[read:]]
    told = [queue.at(20 + at, *batch) for at, batch in enumerate([*batches, [], []])]
    found = [one for decisions in told for one in ended(decisions)]
    assert sorted(found) == [(half, states[half % 2], "END") for half in range(6)]
    for decisions in told:
        ended_by = [one.op_offset for one in decisions.ended]
        assert ended_by == sorted(offset for offset in ended_by if offset is not None)


@pytest.mark.parametrize("off_ms", [-3_600_000, 3_600_000])
def test_the_producers_clock_decides_nothing(off_ms: int) -> None:
    queue = Driver()
    sent = [born_at(records.half(offset, HOUR), HOUR + off_ms) for offset in range(2)]
    assert ended(queue.at(HOUR + 10, *sent, end(0, HOUR + 5, 0))) == [(0, "COMMIT", "END")]
    due = HOUR + TIMEOUT
    assert checked(queue.at(due, records.fence(1, due))) == []
    assert checked(queue.at(due + 1, records.fence(2, due + 1))) == [(1, 1)]


def born_at(sent: records.Sent, born_ms: int) -> records.Sent:
    name = "BORN_TIMESTAMP"
    headers = [(n, str(born_ms).encode() if n == name else value) for n, value in sent.headers]
    half = sent.half._replace(born_at_ms=born_ms)
    means = sent.half_read._replace(half=half, headers=headers)
    return sent._replace(headers=headers, means=means)


@pytest.mark.parametrize("made_up", [1, 2, 5, 2**63 - 1])
def test_a_made_up_offset_is_refused_when_a_fence_proves_that_it_has_no_half(made_up: int) -> None:
    queue = Driver()
    asked = queue.at(10, records.half(0, 0), end(0, 5, made_up), end(1, 6, 0))
    assert (asked.refused, asked.ended, asked.wake_at_ms) == ([], [], 0)
    assert asked.fence_ops == 2, "a fence behind both ops"
    proved = queue.at(20, records.half_fence(1, 15, 2))
    assert refused(proved) == [("tx.op:3:0", 0, "UNKNOWN_HALF")]
    assert ended(proved) == [(0, "COMMIT", "END")]
    assert (proved.fence_ops, proved.wake_at_ms) == (None, None)


@pytest.mark.parametrize("forged", [{"secret": ""}, {"queue": 1}])
def test_an_older_fence_and_a_forged_one_prove_nothing(forged: Any) -> None:
    queue = Driver()
    assert queue.at(10, end(0, 4, 9), end(1, 5, 9)).fence_ops == 2
    older = queue.at(20, records.half_fence(0, 15, 1))
    assert (refused(older), older.fence_ops) == ([("tx.op:3:0", 0, "UNKNOWN_HALF")], 2)
    late = queue.at(30, records.half_fence(1, 16, 2, **forged))
    assert (late.refused, late.fence_ops) == ([], 2)


def test_a_half_that_a_cut_off_leader_did_not_show_ends_by_its_op() -> None:
    """The new leader has half and fence; the one before showed neither."""
    queue = Driver()
    assert queue.at(10, end(0, 5, 1)).fence_ops == 1
    assert (queue.at(20).refused, queue.at(30).refused) == ([], [])
    found = queue.at(40, records.half(1, 3), records.half_fence(2, 15, 1))
    assert (ended(found), found.refused) == ([(1, "COMMIT", "END")], [])


def test_an_op_of_a_half_that_is_gone_is_refused_when_it_would_have_been_read() -> None:
    """As of an aborted transaction, or one that was deleted."""
    queue = Driver()
    assert queue.at(10, end(0, 5, 1)).refused == []
    assert refused(queue.at(20, records.half(2, 0))) == [("tx.op:3:0", 0, "UNKNOWN_HALF")]


def test_however_many_ops_come_before_their_halves_none_is_refused() -> None:
    queue, many = Driver(), 1_000
    ops = [end(offset, offset, offset) for offset in range(many)]
    found = ended(queue.at(10, *ops))
    for offset in range(0, many, 100):
        halves = [records.half(at, at) for at in range(offset, offset + 100)]
        decisions = queue.at(20 + offset, *halves)
        assert (decisions.refused, decisions.checks) == ([], [])
        found += ended(decisions)
    assert found == [(offset, "COMMIT", "END") for offset in range(many)]


def test_checks_are_shared_fairly_between_groups_the_oldest_first() -> None:
    queue = Driver(Rules(max_checks=4))
    halves = [records.half(offset, offset, group="many") for offset in range(8)]
    queue.at(10, *halves, records.half(8, 8, group="few"), records.half(9, 9, group="few"))
    first = queue.at(9_000, records.fence(0, 9_000))
    assert checked(first) == [(0, 1), (1, 1), (8, 1), (9, 1)]
    assert first.wake_at_ms == 0
    assert checked(queue.at(9_100)) == [(2, 1), (3, 1), (4, 1), (5, 1)]
    last = queue.at(9_200)
    assert checked(last) == [(6, 1), (7, 1)]
    assert last.wake_at_ms == 9_000 + INTERVAL


def test_elements_of_one_op_differ_in_fate_and_neighbours_are_unharmed() -> None:
    queue = Driver()
    sent = [records.half(0, 0), records.half(1, 0, group="g1"), records.half(2, 0)]
    queue.at(10, *sent, end(0, 5, 2, state="ROLLBACK"))
    elements = [(0, "id-0"), (1, "id-1"), (2, "id-2"), (-1, "id"), (0, "id-0"), (5, "id-5")]
    queue.at(20, records.op(1, 15, elements), records.op(2, 16, [(1, "?")], group="g1"))
    decisions = queue.at(30, records.half_fence(3, 25, 3))  # there is no half 5
    assert ended(decisions) == [(0, "COMMIT", "END")]
    assert refused(decisions) == [
        ("tx.op:3:1", 1, "GROUP_MISMATCH"),
        ("tx.op:3:1", 2, "CONFLICTING_END"),
        ("tx.op:3:1", 3, "MALFORMED_OP"),
        ("tx.op:3:1", 5, "UNKNOWN_HALF"),
        ("tx.op:3:2", 0, "TRANSACTION_MISMATCH"),
    ]
    assert (decisions.duplicates, decisions.pending) == (1, 1)


def test_a_commit_is_undeliverable_if_new_transactions_were_refused_when_its_half_came() -> None:
    queue = Driver(Rules(reject_transaction_message=True))
    halves = [records.half(0, 0), records.half(1, 0), records.malformed_half(2, 0, 0)]
    decisions = queue.at(10, *halves)
    assert [r.reason for r in decisions.refused] == [QuarantineReason.MALFORMED_HALF]
    assert decisions.pending == 2
    queue.rules = Rules()
    decisions = queue.at(20, end(0, 15, 0), end(1, 16, 1, state="ROLLBACK"), end(2, 17, 0))
    assert ended(decisions) == [(0, "UNDELIVERABLE", "DELIVERY"), (1, "ROLLBACK", "END")]
    assert decisions.duplicates == 1
    gone = decisions.ended[0]
    assert (gone.reason, gone.op_offset, gone.ended_at_ms) == (DiscardReason.UNDELIVERABLE, 0, 15)
    assert gone.error == "new transactions are refused while reject_transaction_message is set"


def test_a_refused_half_is_checked_and_given_up_like_any_other() -> None:
    queue = Driver(Rules(reject_transaction_message=True, transaction_check_max=1))
    queue.at(10, records.half(0, 0), records.half(1, 0))
    decisions = queue.at(20_000, records.fence(0, 10_000))
    assert checked(decisions) == [(0, 1), (1, 1)]
    decisions = queue.at(
        30_000,
        end(1, 20_100, 0, from_check=True),
        end(2, 20_100, 1, state="UNKNOWN", from_check=True),
    )
    assert ended(decisions) == [(0, "UNDELIVERABLE", "DELIVERY")]
    decisions = queue.at(90_000, records.fence(3, 80_000))
    assert ended(decisions) == [(1, "DISCARD", "LIMIT")]
    assert decisions.ended[0].error is None


def test_state_without_a_refused_half_is_as_it_was_before_there_were_any() -> None:
    """So a checkpoint of an older version is read."""
    queue = Driver()
    queue.at(10, records.half(0, 0))
    assert len(msgpack.unpackb(queue.state["pending/0"])) == 3
    queue.rules = Rules(reject_transaction_message=True)
    queue.at(20, records.half(1, 15))
    assert len(msgpack.unpackb(queue.state["pending/0"])) == 4
    assert ended(queue.at(30, end(0, 25, 0))) == [(0, "COMMIT", "END")]
    assert ended(queue.at(40, end(1, 35, 1))) == [(1, "UNDELIVERABLE", "DELIVERY")]


@pytest.mark.parametrize(
    ("limits", "permitted"),
    [
        ({}, True),
        ({"g0": ["orders"]}, True),
        ({"g0": ["payments", "ord*"]}, True),
        ({"g0": ["*"], "*": []}, True),
        ({"g1": []}, True),
        ({"g0": ["orders.*", "order", "order?"]}, False),
        ({"g0": []}, False),
        ({"g0": [], "*": ["orders"]}, False),
        ({"g1": ["orders"], "*": []}, False),
    ],
)
def test_a_group_publishes_to_its_topics_alone(
    limits: dict[str, list[str]], permitted: bool
) -> None:
    decisions = Driver(Rules(group_topics=limits)).at(10, records.half(0, 0), end(0, 5, 0))
    if permitted:
        assert ended(decisions) == [(0, "COMMIT", "END")]
        return
    assert ended(decisions) == [(0, "UNDELIVERABLE", "DELIVERY")]
    said = str(decisions.ended[0].error)
    assert said.startswith("group 'g0' may not publish to topic orders: its topics in the settings")


def test_a_half_that_pends_may_be_committed_after_its_group_has_lost_its_topic() -> None:
    queue = Driver()
    queue.at(10, records.half(0, 0))
    queue.rules = Rules(group_topics={"*": []})
    decisions = queue.at(20, records.half(1, 15), end(0, 16, 0, 1))
    assert ended(decisions) == [(0, "COMMIT", "END"), (1, "UNDELIVERABLE", "DELIVERY")]


def test_messages_come_out_of_the_state_bit_for_bit() -> None:
    queue = Driver()
    user = [("", b""), ("TAGS", None), ("TAGS", b"\xff\x00"), ("é", b"1")]
    sent = records.half(0, 0, key=b"\x00\xff", body=bytes(range(256)) * 40, user=user, real_qid=5)
    queue.at(10, sent, records.half(1, 0, body=None, key=b""))
    decisions = queue.at(20, end(0, 15, 1, 0))
    null, full = (e.stored_half for e in decisions.ended)
    assert (full.half.key, full.half.body, full.half.headers) == (sent.key, sent.value, user)
    assert (full.all_headers, full.half.real_qid) == (sent.headers, 5)
    assert (null.half.key, null.half.body) == (b"", None)
    assert decisions.ended[0].source is Source.END
    assert decisions.ended[0].outcome is Outcome.COMMIT


def test_an_operator_s_question_ends_the_wait_and_its_growing() -> None:
    queue = Driver()
    queue.at(100, records.half(0, 0))
    at = TIMEOUT + 1
    for number in range(3):  # waits of 30, 60 and 120 s
        seen = queue.at(at, records.fence(number, at))
        at += INTERVAL * 2**number + 1
    assert seen.wake_at_ms is not None
    asked_at = seen.wake_at_ms - INTERVAL
    asked = queue.at(asked_at, end(3, asked_at, 0, state="UNKNOWN", actor="anna"))
    assert checked(asked) == [(0, 4)]
    assert asked.wake_at_ms == asked_at + 2 * INTERVAL


def test_an_operator_s_question_gives_nothing_up_before_the_answer_was_waited_for() -> None:
    queue = Driver(Rules(transaction_check_max=1))
    queue.at(100, records.half(0, 0))
    queue.at(TIMEOUT + 1, records.fence(0, TIMEOUT + 1))
    queue.at(7_000, end(1, 7_000, 0, state="UNKNOWN", from_check=True))
    asked = queue.at(8_000, end(2, 8_000, 0, state="UNKNOWN", actor="anna"))
    assert (checked(asked), ended(asked)) == ([], [])


def _announcement(offset: int, at: int, group: str = "g0") -> records.Sent:
    return records.op(offset, at, [], "UNKNOWN", group, from_check=True)


def _backing_off(queue: Driver, *halves: records.Sent) -> int:
    """Let three checks go unanswered; return when the third was sent: its wait is two minutes."""
    queue.at(100, *halves)
    at = TIMEOUT + 1
    for number in range(3):
        queue.at(at, records.fence(number, at))
        at += INTERVAL * 2**number + 1
    return at - INTERVAL * 4 - 1


def test_an_agent_that_announces_itself_is_asked_in_the_next_batch() -> None:
    queue = Driver()
    at = _backing_off(queue, records.half(0, 0), records.half(1, 0, group="g1")) + 1_000
    announced = queue.at(at, _announcement(3, at))
    assert (checked(announced), announced.wake_at_ms) == ([], 0)
    asked = queue.at(at + 1, records.fence(4, at + 1))
    assert checked(asked) == [(0, 4)]  # and not the half of group g1
    due = queue.at(at + 2, records.fence(5, at + 2)).wake_at_ms
    assert due == 180_000, "the check that was due by itself stays"


def test_a_flood_of_announcements_brings_one_extra_check_for_each_that_is_due() -> None:
    def checks_of(flood: bool) -> int:
        queue = Driver()
        at = _backing_off(queue, records.half(0, 0)) + 1_000
        checks = 0
        for op in range(3, 3_003):
            record = _announcement(op, at) if flood else records.fence(op, at)
            checks += len(queue.at(at, record).checks)
            at += INTERVAL // 100
        return checks

    by_themselves = checks_of(flood=False)
    assert by_themselves > 2
    # One more is out at the end, and has had its extra check.
    assert checks_of(flood=True) == 2 * by_themselves + 1


def test_an_announcement_brings_no_discard_nearer() -> None:
    """Also where a batch's limit leaves some halves without their extra check."""
    queue = Driver(Rules(max_checks=1, transaction_check_max=1))
    at = TIMEOUT + 1
    queue.at(1, records.half(0, 0), records.half(1, 0))
    queue.at(at, records.fence(0, at))
    assert checked(queue.at(at + 1, records.fence(1, at + 1))) == [(1, 1)]
    queue.at(at + 2, _announcement(2, at + 2))
    assert checked(queue.at(at + 3, records.fence(3, at + 3))) == [(0, 2)]
    answered = queue.at(at + 4, end(4, at + 4, 1, state="UNKNOWN", from_check=True))
    assert answered.ended == []
    assert ended(queue.at(at + 1_004, end(5, at + 1_004, 1))) == [(1, "COMMIT", "END")]


@contextmanager
def _three_segments(folder: Path, window: int) -> Iterator[Callable[[records.Sent], list[int]]]:
    """Yield what reads an op and returns the halves checked: of 12, each asked about once.

    A segment has 4 halves, and a batch looks at `window` of them for groups that are back.
    """
    small = [
        Change("state/head.py", "SEGMENT = 4096", "SEGMENT = 4", "segments of 4 halves"),
        Change(
            "state/groups_back.py", "WINDOW = 65_536", f"WINDOW = {window}", "few halves a batch"
        ),
    ]
    with altered_step(small, folder) as code:
        queue = Driver(code=code)

        def read(op: records.Sent) -> list[int]:
            plan = Plan(12, op.offset, op.offset + 1)
            checks = queue.read(Batch(op.stored_at_ms, plan, [], [op])).checks
            return [check.stored_half.offset for check in checks]

        halves = [records.half(offset, 0) for offset in range(12)]
        queue.read(Batch(100, Plan(12, 0, 0), halves))
        assert read(records.fence(0, TIMEOUT + 1)) == list(range(12))
        yield read


def test_new_groups_do_not_keep_others_from_being_asked(tmp_path: Path) -> None:
    with _three_segments(tmp_path, window=4) as read:
        read(_announcement(1, TIMEOUT + 2))
        named = [_announcement(2 + n, TIMEOUT + 3 + n, group=f"made-up-{n}") for n in range(3)]
        assert [read(op) for op in named] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_announcements_use_up_no_checks_that_count() -> None:
    queue = Driver(Rules(count_unanswered_checks=True))
    queue.at(1, records.half(0, 0))
    queue.at(TIMEOUT + 1, records.fence(0, TIMEOUT + 1))
    queue.at(7_000, _announcement(1, 7_000))
    assert checked(queue.at(7_001, records.fence(2, 7_001))) == []


@pytest.mark.parametrize("state", ["COMMIT", "UNKNOWN"])
def test_a_group_that_answers_again_is_asked_about_its_other_halves(state: str) -> None:
    queue = Driver()
    at = _backing_off(queue, records.half(0, 0), records.half(1, 0)) + 1_000
    queue.at(at, end(3, at, 0, state=state, from_check=True))
    assert checked(queue.at(at + 1, records.fence(4, at + 1))) == [(1, 4)]


def test_an_agent_that_answers_others_and_never_this_half_is_not_asked_faster() -> None:
    """One message that its listener can't judge costs few checks in a group that works."""
    queue = Driver()
    at = _backing_off(queue, records.half(0, 0)) + 1_000
    queue.at(at, records.half(1, at))
    at += TIMEOUT + 1
    assert checked(queue.at(at, records.fence(3, at))) == [(1, 1)]
    queue.at(at + 1, end(4, at + 1, 1, from_check=True))
    assert checked(queue.at(at + 2, records.fence(5, at + 2))) == []


def test_a_return_reaches_more_halves_than_a_batch_looks_at(tmp_path: Path) -> None:
    """Batch by batch, so that the memory that a batch takes has a limit."""
    with _three_segments(tmp_path, window=8) as read:
        assert read(_announcement(1, TIMEOUT + 2)) == []
        assert read(records.fence(2, TIMEOUT + 3)) == list(range(8))
        assert read(_announcement(3, TIMEOUT + 4)) == list(range(8, 12))


def test_a_return_reaches_halves_that_came_while_others_used_up_the_limit(tmp_path: Path) -> None:
    small = [Change("state/head.py", "SEGMENT = 4096", "SEGMENT = 4", "segments of 4 halves")]
    with altered_step(small, tmp_path) as code:
        queue = Driver(Rules(max_checks=1), code, 4)
        at = TIMEOUT + 1
        queue.at(at, records.half(0, 0), records.fence(0, at))
        queue.at(at + 1, _announcement(1, at + 1))
        told = [queue.at(at + 2, records.half(4, 0), records.fence(2, at + 2))]
        told += [queue.at(at + 3), queue.at(at + 4)]
        assert [checked(read) for read in told] == [[(4, 1)], [(0, 2)], [(4, 2)]]
