"""The judge of a fault campaign: the order of messages, and the time of recovery."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from resolver.protocol import Outcome, Source
from tests.faults.load import Fate

from .judged import KEY_OF_QUEUE_0, TOPIC, Story, half, message, outcome


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        ({"offset": 7, "op_offset": 1}, {"offset": 8, "op_offset": 2}, 0),
        ({"offset": 8, "op_offset": 1}, {"offset": 7, "op_offset": 2}, 0),
        ({"offset": 7, "op_offset": 1}, {"offset": 8, "op_offset": 1}, 0),
        ({"offset": 7, "op_offset": 2}, {"offset": 8, "op_offset": 1}, 1),
        ({"offset": 8, "op_offset": 2}, {"offset": 7, "op_offset": 1}, 1),
    ],
)
@pytest.mark.parametrize("are_outcomes_first", [True, False])
def test_messages_of_a_queue_stand_in_the_order_of_their_ops(
    story: Story,
    first: dict[str, int],
    second: dict[str, int],
    wrong: int,
    are_outcomes_first: bool,
) -> None:
    halves, messages = [], []
    for name, place in (("first", first), ("second", second)):
        at = f"0:{place['offset']}"
        story.sent(name, at)
        halves.append(half(name, place["offset"]))
        messages.append(message(name, at=at))
    outcomes = [outcome(Outcome.COMMIT, at["offset"], at["op_offset"]) for at in (second, first)]
    parts = (outcomes, messages) if are_outcomes_first else (messages, outcomes)
    verdict = story.take(*halves, *parts[0], *parts[1])
    assert (verdict.settled, len(verdict.wrong)) == (2, wrong)


@pytest.mark.parametrize(
    ("delivered", "ended_by", "wrong"),
    [
        (["first", "second"], Source.END, 0),
        (["second", "first"], Source.END, 1),
        (["second", "first"], Source.CHECK, 0),
    ],
)
@pytest.mark.parametrize("are_outcomes_first", [True, False])
def test_messages_of_a_key_stand_in_the_order_of_their_commits(
    story: Story, delivered: list[str], ended_by: Source, wrong: int, are_outcomes_first: bool
) -> None:
    """Whatever the ops say; an end by check stands anywhere."""
    places = {"first": 7, "second": 8}
    for name, offset in places.items():
        story.sent(name, f"0:{offset}")
        story.sent_log.committed(name, KEY_OF_QUEUE_0)
    halves = [half(name, offset) for name, offset in places.items()]
    messages = [message(name, at=f"0:{places[name]}") for name in delivered]
    outcomes = [
        outcome(offset=places[name], op_offset=number, source=ended_by)
        for number, name in enumerate(delivered)
    ]
    parts = (outcomes, messages) if are_outcomes_first else (messages, outcomes)
    verdict = story.take(*halves, *parts[0], *parts[1])
    assert (verdict.settled, len(verdict.wrong)) == (2, wrong)
    assert story.judge.in_order == (2 if ended_by is Source.END else 0)


@pytest.mark.parametrize(("at", "wrong"), [("0:7", 0), ("1:7", 1)])
def test_an_ordering_key_belongs_in_one_queue(story: Story, at: str, wrong: int) -> None:
    story.sent(half=at)
    story.sent_log.committed("m", KEY_OF_QUEUE_0)
    assert len(story.take(message(at=at)).wrong) == wrong


def test_recovery_is_until_a_message_begun_later_is_visible(story: Story) -> None:
    story.sent("before", "0:7")
    story.judge.count_from(time.time())
    story.sent("after", "0:8")
    story.take(half("before"), message("before"))
    assert story.judge.recovery is None
    story.take(message("after", at="0:8"))
    assert story.judge.recovery is not None


def test_recovery_of_checks_is_until_a_message_is_visible_that_only_a_check_can_end(
    story: Story,
) -> None:
    story.judge.count_from(time.time() - 1, by_check=True)
    story.sent("told", "0:7")
    story.sent("silent", "0:8", fate=Fate.COMMIT_SILENTLY)
    story.take(half("told"), message("told"))
    assert story.judge.recovery is None
    story.take(message("silent", at="0:8"))
    assert story.judge.recovery is not None


def test_recovery_of_a_cluster_is_until_each_queue_and_each_topic_flows(story: Story) -> None:
    lanes = frozenset({"0", "1", TOPIC})
    story.judge.count_from(time.time() - 1, lanes=lanes)
    story.sent("one", "0:8")
    story.sent("other", "1:8")
    story.take(half("one", 8), message("one", at="0:8"))
    assert story.judge.recovery is None
    story.take(message("other", at="1:8"))
    assert story.judge.recovery is not None
    assert story.judge.topics == {TOPIC}


def test_the_slowest_message_counts_from_the_fault_or_from_its_half(story: Story) -> None:
    story.sent("before")
    late = message("before")
    fault_at = late.received_ms / 1_000 + 1
    story.judge.count_from(fault_at)
    story.take(half("before"), replace(late, received_ms=late.received_ms + 11_000))
    assert story.judge.slowest == pytest.approx(10)
    story.judge.count_from(time.time() - 5)
    story.sent("after", "0:8")
    story.take(message("after", at="0:8"))
    assert story.judge.slowest < 4
