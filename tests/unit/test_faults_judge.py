"""The judge of a fault campaign finds what it is there to find."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from resolver.demo.reading import Read
from resolver.protocol import Outcome
from tests.faults import world as faults_world
from tests.faults.fault_error import FaultError
from tests.faults.load import Fate
from tests.faults.sent_log import COMMIT, ROLLBACK
from tests.faults.world_kind import WorldKind
from tests.support.patience import PATIENCE_SECONDS

from .judged import Story, given_up, half, message, outcome


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_commit_is_complete_with_its_outcome_and_its_message(story: Story) -> None:
    story.sent()
    assert story.take(half(), outcome()).settled == 0
    assert story.judge.open == {"0:7"}
    verdict = story.take(message())
    assert verdict.holds and verdict.settled == 1
    assert not story.judge.open


@pytest.mark.parametrize(
    ("fate", "said", "first", "second"),
    [
        (Fate.COMMIT, Outcome.COMMIT, "outcome", "message"),
        (Fate.COMMIT, Outcome.COMMIT, "message", "outcome"),
        (Fate.UNDELIVERABLE, Outcome.UNDELIVERABLE, "outcome", "given up"),
        (Fate.UNDELIVERABLE, Outcome.UNDELIVERABLE, "given up", "outcome"),
        (Fate.NOT_PERMITTED, Outcome.UNDELIVERABLE, "outcome", "given up"),
    ],
)
def test_an_outcome_and_its_message_are_apart_until_both_are_read(
    story: Story, fate: Fate, said: Outcome, first: str, second: str
) -> None:
    reads = {"outcome": outcome(said), "message": message(), "given up": given_up()}
    story.sent(fate=fate)
    story.take(half())
    assert story.judge.apart() == set()
    story.take(reads[first])
    assert story.judge.apart() == {"0:7"}
    story.take(reads[second])
    assert story.judge.apart() == set()


@pytest.mark.parametrize("comes", [True, False])
def test_before_the_next_start_an_outcome_must_have_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """One that is not visible at once, as Kafka ends a transaction topic by topic, is awaited."""
    world = faults_world.World(tmp_path, WorldKind(), 1, 0, threading.Event())
    told = Story(tmp_path)
    told.sent()
    reads = [[half(), outcome()], [message()] if comes else []]
    monkeypatch.setattr(faults_world, "Reader", partial(Topics, reads))
    monkeypatch.setattr(faults_world, "WHOLE_SECONDS", PATIENCE_SECONDS if comes else 0.1)
    with nullcontext() if comes else pytest.raises(FaultError, match="0:7"):
        world.see_whole()


class Topics:
    """A reader of what is there, a part at a time."""

    offsets: ClassVar[dict[tuple[str, int], int]] = {}

    def __init__(self, reads: list[list[Read]], *_: object) -> None:
        self._reads = reads
        self.reached_end = False

    def read(self, _seconds: float) -> list[Read]:
        self.reached_end = True
        return self._reads.pop(0) if self._reads else []


def test_a_rollback_is_complete_with_its_outcome(story: Story) -> None:
    story.sent(decided=ROLLBACK)
    verdict = story.take(half(), outcome(Outcome.ROLLBACK))
    assert verdict.holds and verdict.settled == 1


def test_what_was_stored_and_not_acknowledged_may_be_rolled_back_by_its_check(
    story: Story,
) -> None:
    story.sent(half=None, decided=ROLLBACK)
    verdict = story.take(half(), outcome(Outcome.ROLLBACK))
    assert verdict.holds and verdict.settled == 1


def test_what_was_rolled_back_as_nobody_knew_of_it_may_be_rolled_back_by_a_late_answer(
    story: Story,
) -> None:
    story.sent(half=None, decided=None)
    story.take(half(), outcome(Outcome.ROLLBACK))
    story.sent_log.decide("m", ROLLBACK)
    assert story.take().holds


@pytest.mark.parametrize("goes_on", ["acknowledged", "commits"])
def test_what_was_rolled_back_as_nobody_knew_of_it_must_not_go_on(
    story: Story, goes_on: str
) -> None:
    story.sent(half=None, decided=None)
    assert story.take(half(), outcome(Outcome.ROLLBACK)).holds
    if goes_on == "commits":
        story.sent_log.decide("m", COMMIT)
    else:
        story.sent_log.stored("m", "0:7")
    assert len(story.take().lost) == 1


@pytest.mark.parametrize(
    ("fate", "decided", "said"),
    [
        (Fate.UNKNOWN, None, Outcome.DISCARD),
        (Fate.UNDELIVERABLE, COMMIT, Outcome.UNDELIVERABLE),
        (Fate.NOT_PERMITTED, COMMIT, Outcome.UNDELIVERABLE),
    ],
)
def test_what_is_given_up_is_complete_with_its_message_among_the_discarded(
    story: Story, fate: Fate, decided: str | None, said: Outcome
) -> None:
    story.sent(decided=decided, fate=fate)
    assert story.take(half(), outcome(said)).settled == 0
    verdict = story.take(given_up())
    assert verdict.holds and verdict.settled == 1
    assert len(story.take(given_up()).doubled) == 1


@pytest.mark.parametrize("said", [Outcome.ROLLBACK, Outcome.COMMIT])
def test_what_never_knows_must_be_given_up(story: Story, said: Outcome) -> None:
    story.sent(decided=None, fate=Fate.UNKNOWN)
    assert not story.take(half(), outcome(said), message()).holds


def test_what_is_given_up_has_its_own_bits(story: Story) -> None:
    story.sent(decided=None, fate=Fate.UNKNOWN)
    verdict = story.take(half(), outcome(Outcome.DISCARD), given_up(b"bodY"))
    assert len(verdict.wrong) == 1


def test_what_was_rolled_back_is_not_among_the_discarded(story: Story) -> None:
    story.sent(decided=ROLLBACK)
    assert len(story.take(half(), outcome(Outcome.ROLLBACK), given_up()).wrong) == 1
    assert story.judge.verdict.settled == 1


def test_what_was_rolled_back_is_not_given_up_later(story: Story) -> None:
    story.sent(decided=ROLLBACK)
    assert story.take(half(), outcome(Outcome.ROLLBACK)).holds
    assert len(story.take(given_up()).wrong) == 1


def test_a_message_of_another_half_is_wrong_and_a_double(story: Story) -> None:
    story.sent("m", "0:7")
    story.sent("other", "0:8")
    assert len(story.take(half(), message("other")).wrong) == 1
    assert len(story.take(message("other", at="0:8")).doubled) == 1


def test_a_half_that_is_malformed_is_nobodys(story: Story) -> None:
    assert story.take(replace(half(), headers=[])).holds
    assert not story.judge.open


def test_a_second_message_is_a_double_however_late(story: Story) -> None:
    story.sent()
    assert story.take(half(), outcome(), message()).holds
    assert len(story.take(message()).doubled) == 1


def test_a_second_outcome_is_a_double(story: Story) -> None:
    story.sent()
    assert story.take(half(), outcome(), message()).holds
    assert len(story.take(outcome()).doubled) == 1


@pytest.mark.parametrize("decided", [ROLLBACK, None])
def test_what_was_not_decided_to_commit_is_delivered_wrongly(
    story: Story, decided: str | None
) -> None:
    story.sent(decided=decided)
    assert len(story.take(half(), message()).wrong) == 1


def test_other_bits_are_wrong(story: Story) -> None:
    story.sent()
    assert len(story.take(half(), outcome(), message(body=b"bodY")).wrong) == 1


def test_another_header_is_wrong(story: Story) -> None:
    story.sent()
    changed = message()
    changed = replace(changed, headers=[*changed.headers, ("more", b"")])
    assert len(story.take(half(), outcome(), changed).wrong) == 1


@pytest.mark.parametrize(("belongs", "wrong"), [(None, 0), (0, 0), (1, 1)])
def test_another_partition_is_wrong(story: Story, belongs: int | None, wrong: int) -> None:
    story.sent(partition=belongs)
    assert len(story.take(half(), outcome(), message()).wrong) == wrong


@pytest.mark.parametrize("said", [Outcome.ROLLBACK, Outcome.DISCARD, Outcome.UNDELIVERABLE])
def test_a_commit_with_another_outcome_is_lost(story: Story, said: Outcome) -> None:
    story.sent()
    reads = [] if said is Outcome.ROLLBACK else [given_up()]
    assert len(story.take(half(), outcome(said), *reads).lost) == 1


def test_a_half_that_was_acknowledged_is_owed_though_no_topic_has_it(story: Story) -> None:
    story.sent()
    story.take()
    assert story.judge.open == {"0:7"}
    story.judge.give_up({"0:7"})
    assert len(story.judge.verdict.lost) == 1


def test_a_rollback_that_nobody_decided_is_wrong(story: Story) -> None:
    story.sent(decided=None)
    assert len(story.take(half(), outcome(Outcome.ROLLBACK)).wrong) == 1
