"""The judge of a fault campaign: the time of recovery."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.load import Fate

from .judged import TOPIC, Story, half, message


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


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
