"""The judge of a fault campaign: the order of messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver.protocol import Outcome, Source

from .judged import KEY_OF_QUEUE_0, Story, half, message, outcome


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
