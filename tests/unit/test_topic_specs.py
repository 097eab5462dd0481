"""Rules that one broker can't show: those of several replicas."""

from __future__ import annotations

import pytest

from resolver.kafka.topic_specs import TopicSpec, broken, output_topics, queue_topics
from resolver.settings import Settings


def broken_settings(spec: TopicSpec, config: dict[str, str], replicas: int) -> dict[str, str]:
    return {rule.setting: rule.fix for rule, _ in broken(spec, config, replicas)}


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_two_of_three_replicas_must_have_a_record(replicas: int, in_sync: str) -> None:
    settings = Settings(replication_factor=replicas)
    half, op = queue_topics(settings)
    assert half.config["min.insync.replicas"] == op.config["min.insync.replicas"] == in_sync
    large = {"max.message.bytes": "1", "retention.ms": "1", "segment.ms": "1"}
    for spec in output_topics(settings, ["orders"], large, large):
        assert spec.config.get("min.insync.replicas", in_sync) == in_sync
    assert broken_settings(half, dict(half.config), replicas) == {}


@pytest.mark.parametrize(
    ("replicas", "found", "fix"),
    [(3, "1", "2"), (3, "4", "2"), (1, "2", "1"), (2, "3", "1")],
)
def test_too_few_or_too_many_in_sync_replicas_are_refused(
    replicas: int, found: str, fix: str
) -> None:
    half, _ = queue_topics(Settings())
    config = {**half.config, "min.insync.replicas": found}
    assert broken_settings(half, config, replicas) == {"min.insync.replicas": fix}


@pytest.mark.parametrize(("replicas", "found"), [(3, "2"), (3, "3"), (2, "2"), (2, "1"), (1, "1")])
def test_in_sync_replicas_that_will_do(replicas: int, found: str) -> None:
    half, _ = queue_topics(Settings())
    config = {**half.config, "min.insync.replicas": found}
    assert broken_settings(half, config, replicas) == {}


def test_a_topic_made_as_specified_breaks_no_rule_however_long_it_keeps() -> None:
    for hours in (1, 72, 8_760):
        settings = Settings(file_reserved_hours=hours)
        half, op = queue_topics(settings)
        found = {**half.config, **op.config}
        for spec in (half, op, *output_topics(settings, ["orders"], found, found)):
            assert broken_settings(spec, dict(spec.config), 1) == {}
