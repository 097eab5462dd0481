"""A fast commit on its way through delivery: a resolution alone, as its message is out already."""

from __future__ import annotations

import logging

import pytest

from resolver.protocol import (
    FAST_DELIVERY,
    Half,
    Names,
    Outcome,
    Source,
    StoredHalf,
    decode_resolution,
)
from resolver.resolve.delivery.activity import Activity
from resolver.resolve.delivery.lane import Lane
from resolver.resolve.delivery.packed import BatchName, DecisionRecords, pack, unpack
from resolver.resolve.delivery.visible_records import VisibleRecords
from resolver.resolve.step import CheckCounts, Ended, QueueDecisions
from resolver.settings import Settings

NAMES = Names()
MAX_BYTES = 1_048_576


def _packed(*ended: Ended) -> list[DecisionRecords]:
    decisions = QueueDecisions(list(ended), [], [], 0, CheckCounts(), None, None, None, 0, 0)
    parts = pack(decisions, NAMES, BatchName(7, "query"), MAX_BYTES)
    return [decision for part in parts for decision in unpack(part)]


def _end(outcome: Outcome = Outcome.COMMIT, is_fast: bool = False) -> Ended:
    sent = Half("id", "orders", "orders.placed", 1, b"key", b"body", [])
    at = StoredHalf(2, 17, 1_000, sent, [("a", b"1")])
    return Ended(at, outcome, Source.END, 9, 1_200, 0, 0, 1_300, is_fast=is_fast)


def test_a_fast_commit_is_its_resolution_alone() -> None:
    fast, plain = _packed(_end(is_fast=True), _end())
    assert (fast.message, fast.half_headers) == (None, None)
    assert fast.resolution is not None and plain.resolution is not None
    said = decode_resolution(fast.resolution.value)
    assert (said.outcome, said.source, said.delivery) == (Outcome.COMMIT, Source.END, FAST_DELIVERY)
    assert said._replace(delivery=None) == decode_resolution(plain.resolution.value)
    assert plain.message is not None


def test_nothing_else_is_taken_for_a_fast_commit() -> None:
    fast = _packed(_end(is_fast=True))
    others = _packed(_end(), _end(Outcome.ROLLBACK))
    named = Half('","delivery":"FAST"}', "orders", "orders.placed", 1, None, b"", [])
    at = StoredHalf(2, 17, 1_000, named, [])
    others += _packed(Ended(at, Outcome.ROLLBACK, Source.END, 9, 1_200, 0, 0, 1_300))
    assert [one.is_fast for one in fast + others] == [True, False, False, False]


def test_a_fast_commit_is_not_parked_with_its_topic() -> None:
    nowhere = Settings(bootstrap_servers="127.0.0.1:1")
    lane = Lane(nowhere)
    lane.park(["orders.placed"], "it is not there")
    fast, plain = _packed(_end(is_fast=True), _end())
    kept, parked = lane.divert([fast, plain], None)
    assert kept == fast
    assert parked.message is not None
    assert parked.message.topic == NAMES.parked


def test_a_fast_commit_stays_what_it_is_where_some_of_its_batch_is_visible() -> None:
    fast, plain = _packed(_end(is_fast=True), _end())
    visible = VisibleRecords(frozenset({("orders.placed", b"2:17", b"id")}), NAMES)
    assert visible.keep_visible_ends([fast, plain]) == [
        fast,
        DecisionRecords(None, plain.resolution),
    ]
    assert visible.rest([fast]) == [fast]


def test_fast_commits_count_as_commits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "resolver")
    seconds = iter([0.0, 60.0, 60.0])
    activity = Activity(NAMES, lambda: next(seconds))
    activity.count(_packed(_end(), _end(is_fast=True), _end(is_fast=True)))
    activity.count(_packed(_end(Outcome.ROLLBACK)))
    activity.tell()
    assert "3 committed, 2 of them by their producers, 1 rolled back" in caplog.text
