from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
)
from typer.testing import CliRunner

from resolver.cli.topics import app
from resolver.errors import SettingsError, TopicSettingsError
from resolver.kafka import topic_admin
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import Topic, ensure_topics
from resolver.settings import Group, Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .topic_config import alter, config

HOUR_MS = 3_600_000


@pytest.fixture
def settings(kafka: Any, prefix: str) -> Settings:
    return Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix)


@pytest.fixture
def admin(settings: Settings) -> AdminClient:
    return admin_client(settings)


def make(admin: AdminClient, topic: str, partitions: int, **settings: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    new = NewTopic(topic, partitions, 1, config=dotted)
    admin.create_topics([new], operation_timeout=30)[topic].result(timeout=PATIENCE_SECONDS)
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)


def partitions(admin: AdminClient, prefix: str) -> dict[str, int]:
    topics = admin.list_topics(timeout=30).topics
    return {
        name.removeprefix(prefix): len(topic.partitions)
        for name, topic in topics.items()
        if name.startswith(prefix)
    }


def refusal(admin: AdminClient, settings: Settings, *groups: str) -> str:
    with pytest.raises(TopicSettingsError) as refused:
        ensure_topics(admin, settings, groups)
    return str(refused.value)


def test_missing_topics_are_made_and_there_when_it_returns(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    made = ensure_topics(admin, replace(settings, queues=3), ["orders", "pay.1"])
    assert {topic.action for topic in made} == {"created"}
    expected = dict.fromkeys(
        ["half", "op", "resolution", "discarded", "quarantine", "check.orders", "check.pay.1"], 3
    ) | {"marker": 1, "parked": 1, "policy": 1, "operation": 1}
    assert partitions(admin, prefix) == expected
    assert {topic.name.removeprefix(prefix): topic.partitions for topic in made} == expected


@pytest.mark.gate
def test_they_are_made_with_what_the_protocol_needs(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    ensure_topics(admin, replace(settings, file_reserved_hours=10), ["orders"])
    half, op = config(admin, f"{prefix}half"), config(admin, f"{prefix}op")
    for queue_topic in (half, op):
        assert queue_topic["message.timestamp.type"] == "LogAppendTime"
        assert queue_topic["cleanup.policy"] == "delete"
        assert queue_topic["min.insync.replicas"] == "1"
        assert queue_topic["retention.bytes"] == "-1"
        assert int(queue_topic["retention.ms"]) == 20 * HOUR_MS
    assert half["max.message.bytes"] == "1048588"
    resolution = config(admin, f"{prefix}resolution")
    stored_at_most = max(int(t["retention.ms"]) + int(t["segment.ms"]) for t in (half, op))
    assert int(resolution["retention.ms"]) >= stored_at_most
    for name in ("check.orders", "discarded", "quarantine"):
        output = config(admin, f"{prefix}{name}")
        assert int(output["max.message.bytes"]) == 1048588 + 65536
        assert output["cleanup.policy"] == "delete"
    assert config(admin, f"{prefix}policy")["cleanup.policy"] == "compact"
    lane = config(admin, f"{prefix}parked")
    assert (lane["retention.ms"], lane["retention.bytes"]) == ("-1", "-1")
    assert int(lane["max.message.bytes"]) > 1048588 + 65536


def test_a_second_call_verifies_and_makes_only_what_is_missing(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    ensure_topics(admin, settings, ["orders"])
    again = ensure_topics(admin, settings, ["new"])
    actions = {topic.name.removeprefix(prefix): topic.action for topic in again}
    assert actions.pop("check.new") == "created"
    assert set(actions.values()) == {"verified"}
    assert "check.orders" in actions


def test_two_at_once_both_end_with_all_topics(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(ensure_topics, admin, settings, ["orders"]) for _ in range(2)]
        both: list[list[Topic]] = [call.result(timeout=PATIENCE_SECONDS) for call in calls]
    assert [topic.name for topic in both[0]] == [topic.name for topic in both[1]]
    assert len(both[0]) == 10


BROKEN = [
    ("half", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ("op", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ("half", "cleanup.policy", "compact", "delete"),
    ("op", "cleanup.policy", "compact,delete", "delete"),
    ("half", "retention.ms", str(144 * HOUR_MS - 1), str(144 * HOUR_MS)),
    ("op", "retention.ms", "1000", str(144 * HOUR_MS)),
    ("half", "retention.bytes", "1000000", "-1"),
    ("half", "min.insync.replicas", "2", "1"),
    ("resolution", "retention.ms", str(168 * HOUR_MS - 1), str(168 * HOUR_MS)),
    ("resolution", "cleanup.policy", "compact", "delete"),
    ("discarded", "max.message.bytes", "1114123", "1114124"),
    ("quarantine", "max.message.bytes", "1048588", "1114124"),
    ("check.orders", "max.message.bytes", "1048588", "1114124"),
    ("check.orders", "cleanup.policy", "compact", "delete"),
    ("parked", "retention.ms", str(168 * HOUR_MS), "-1"),
    ("parked", "max.message.bytes", "1048588", "1114124"),
    ("policy", "cleanup.policy", "delete", "compact"),
]


@pytest.mark.parametrize(("topic", "setting", "found", "fix"), BROKEN)
def test_a_setting_that_the_protocol_cant_live_with_is_refused_with_a_remedy_that_works(
    admin: AdminClient,
    settings: Settings,
    prefix: str,
    topic: str,
    setting: str,
    found: str,
    fix: str,
) -> None:
    ensure_topics(admin, settings, ["orders"])
    alter(admin, prefix + topic, setting, found)
    message = refusal(admin, settings, "orders")
    assert message.startswith(f"topic {prefix}{topic} has {setting}={found}; the protocol needs ")
    command = shlex.split(message[message.index("kafka-configs.sh") :])
    options = dict(pairwise(command))
    assert options["--bootstrap-server"] == settings.bootstrap_servers
    assert options["--entity-name"] == prefix + topic
    assert options["--add-config"] == f"{setting}={fix}"
    alter(admin, options["--entity-name"], *options["--add-config"].split("="))
    assert ensure_topics(admin, settings, ["orders"])


@pytest.mark.gate
def test_the_resolution_topic_must_outlive_what_half_and_op_keep(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    ensure_topics(admin, settings)
    alter(admin, f"{prefix}op", "segment.ms", str(48 * HOUR_MS))
    assert f"topic {prefix}resolution has retention.ms=" in refusal(admin, settings)
    alter(admin, f"{prefix}op", "retention.ms", "-1")
    assert f"--entity-name {prefix}resolution --add-config retention.ms=-1" in refusal(
        admin, settings
    )
    alter(admin, f"{prefix}resolution", "retention.ms", "-1")
    assert ensure_topics(admin, settings)


def test_outputs_must_take_what_a_larger_half_topic_takes(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    make(admin, f"{prefix}half", 4, message_timestamp_type="LogAppendTime",
         retention_ms="-1", max_message_bytes="5000000")  # fmt: skip
    ensure_topics(admin, settings, ["orders"])
    assert config(admin, f"{prefix}check.orders")["max.message.bytes"] == "5065536"
    assert config(admin, f"{prefix}resolution")["retention.ms"] == "-1"


def test_settings_that_the_protocol_can_live_with_are_left(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    make(admin, f"{prefix}discarded", 9, max_message_bytes="9000000", compression_type="zstd")
    ensure_topics(admin, settings)
    assert partitions(admin, prefix)["discarded"] == 9
    assert config(admin, f"{prefix}discarded")["compression.type"] == "zstd"


def test_half_and_op_need_the_same_partitions(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    make(admin, f"{prefix}half", 4)
    make(admin, f"{prefix}op", 2)
    message = refusal(admin, settings)
    assert f"topic {prefix}op has 2 partitions and topic {prefix}half has 4" in message
    assert f"--alter --topic {prefix}op --partitions 4" in message
    assert set(partitions(admin, prefix)) == {"half", "op"}


@pytest.mark.parametrize("there", [("half",), ("op",), ("half", "op")])
def test_a_number_of_queues_other_than_what_is_there_is_refused_before_anything_is_made(
    admin: AdminClient, settings: Settings, prefix: str, there: tuple[str, ...]
) -> None:
    for topic in there:
        make(admin, prefix + topic, 2)
    message = refusal(admin, settings)
    assert f"topic {prefix}{there[0]} has 2 partitions and queues is 4" in message
    assert "; set queues=2" in message
    assert set(partitions(admin, prefix)) == set(there)


def test_without_leave_to_create_missing_topics_are_named(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    with pytest.raises(TopicSettingsError, match=f"missing topics: {prefix}half, {prefix}op;"):
        ensure_topics(admin, settings, create=False)
    assert partitions(admin, prefix) == {}
    ensure_topics(admin, settings)
    assert ensure_topics(admin, settings, create=False)


def test_more_replicas_than_brokers_are_refused(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    message = refusal(admin, replace(settings, replication_factor=3))
    assert message.startswith(f"topic {prefix}half can't be made: ")
    assert "set replication_factor to at most the brokers" in message


def test_fewer_replicas_than_set_are_noted_and_left(admin: AdminClient, settings: Settings) -> None:
    ensure_topics(admin, settings)
    verified = ensure_topics(admin, replace(settings, replication_factor=3))
    assert {topic.note for topic in verified} == {"replication_factor is set to 3"}


def test_an_illegal_group_is_refused_before_anything_is_made(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    for group in ("a b", f"{prefix}resolver"):
        with pytest.raises(SettingsError, match=f"group is '{group}'"):
            ensure_topics(admin, settings, [group])
    assert partitions(admin, prefix) == {}


def test_a_group_whose_check_topic_would_keep_out_anothers_is_refused(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    """Kafka has no two topics whose names differ only in `.` and `_`."""
    said = r"groups 'a.b' and 'a_b' differ only in \. and _"
    with pytest.raises(SettingsError, match=said):
        ensure_topics(admin, settings, ["a_b", "a.b"])
    known = replace(settings, groups={"a_b": Group()})
    with pytest.raises(SettingsError, match=said):
        ensure_topics(admin, known, ["a.b"])
    assert partitions(admin, prefix) == {}
    ensure_topics(admin, settings, ["a.b"])
    with pytest.raises(SettingsError, match=r"groups 'a_b' and 'a.b' differ only in \. and _"):
        ensure_topics(admin, settings, ["a_b"])
    assert ensure_topics(admin, known)  # at the resolver's start all others go on


class WithoutLeader:
    """Kafka as it is, but for a topic of which no partition has a leader."""

    def __init__(self, admin: AdminClient, topic: str) -> None:
        self._admin, self._topic = admin, topic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    def list_topics(self, timeout: float) -> Any:
        known = self._admin.list_topics(timeout=timeout)
        for partition in known.topics[self._topic].partitions.values():
            partition.leader = -1
        return known


def test_a_check_or_half_topic_without_a_leader_keeps_no_others_waiting(
    admin: AdminClient,
    settings: Settings,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_admin, "_TIMEOUT_SECONDS", 3.0)
    ensure_topics(admin, settings, ["orders"])
    unled: Any = WithoutLeader(admin, f"{prefix}check.orders")
    notes = {topic.name: topic.note for topic in ensure_topics(unled, settings, ["pay"])}
    assert notes.pop(f"{prefix}check.orders") == "a partition has no leader"
    assert set(notes.values()) == {""} and f"{prefix}check.pay" in notes
    assert f"topic {prefix}check.orders: a partition has no leader" in caplog.text
    queue: Any = WithoutLeader(admin, f"{prefix}half")
    notes = {topic.name: topic.note for topic in ensure_topics(queue, settings)}
    assert notes.pop(f"{prefix}half") == "a partition has no leader"
    assert set(notes.values()) == {""}
    for name in ("resolution", "marker"):
        with pytest.raises(TopicSettingsError, match=f"{prefix}{name}.* did not appear within"):
            ensure_topics(cast(Any, WithoutLeader(admin, prefix + name)), settings)


def test_the_command_prints_what_it_made_and_verified(
    admin: AdminClient, settings: Settings, prefix: str
) -> None:
    arguments = [
        "create", "--group", "orders", "--queues", "2", "--replication-factor", "1",
        "--bootstrap-servers", settings.bootstrap_servers, "--set", f"topic_prefix={prefix}",
    ]  # fmt: skip
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert [f"{prefix}half", "created", "2", "1"] in [
        line.split() for line in first.output.splitlines()
    ]
    second = CliRunner().invoke(app, [*arguments, "--group", "pay"])
    rows = {line.split()[0]: line.split()[1] for line in second.output.splitlines()}
    assert rows[f"{prefix}check.orders"] == "verified"
    assert rows[f"{prefix}check.pay"] == "created"
    assert partitions(admin, prefix)["op"] == 2
