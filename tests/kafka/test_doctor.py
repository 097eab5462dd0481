"""The doctor names what was made wrong on purpose, each with its remedy, and what is well."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from resolver.broker import Broker
from resolver.cli import app
from resolver.doctor.doctor import examine
from resolver.doctor.finding import Finding, Level, worst
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.producer.agent import TransactionAgent
from resolver.protocol import Names
from resolver.resolve.delivery import Delivery
from resolver.settings import Settings
from resolver.up.home import Home
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.secured import SecuredBroker, Site
from tests.support.tables import half, write_tables
from tests.support.world import COMMIT

from .real_topic import make_real
from .topic_config import alter


class Commits:
    def check_local_transaction(self, message: object) -> Any:
        return COMMIT


@pytest.fixture
def settings(kafka: Broker, prefix: str) -> Settings:
    made = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix, queues=2)
    ensure_topics(admin_client(made), made, ["orders"])
    return made


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def delivered(settings: Settings) -> Iterator[str]:
    """A checkpoint by which a resolver has taken over the topics."""
    delivery = Delivery(settings, "this-one")
    delivery.start(is_new=True)
    yield "this-one"
    delivery.close()


def found(settings: Settings, home: Home, *roles: str) -> list[Finding]:
    """Return all findings but that all is well."""
    return [one for one in examine(settings, home, roles) if one.level is not Level.OK]


def checkpoint(home: Home, identity: str, planned: int) -> None:
    """Write the files of a checkpoint that the doctor looks at."""
    offsets = home.resolve_checkpoint / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (home.resolve_checkpoint / "identity").write_text(json.dumps(identity))
    (offsets / str(planned)).write_text("v1")


def test_where_all_is_well_only_the_missing_agent_is_told(settings: Settings, home: Home) -> None:
    assert found(settings, home, "resolver", "land", "operator", "auditor") == [
        Finding(
            Level.WARNING,
            "group orders",
            "nobody would answer its checks; none waits now",
            "start one of its producers, or "
            "`txresolver agent --group orders --listener MODULE:NAME`",
        )
    ]


def test_with_an_agent_its_members_are_told(settings: Settings, home: Home) -> None:
    agent = TransactionAgent(
        "orders",
        settings.bootstrap_servers,
        Commits(),
        topic_prefix=settings.topic_prefix,
    )
    with agent:
        assert agent.wait_ready(60)
        findings = list(examine(settings, home, ()))
    assert worst(findings) is Level.OK, [one for one in findings if one.level is not Level.OK]
    (group,) = [one for one in findings if one.about == "group orders"]
    assert group.seen == "1 members answer its checks; 0 wait"


def test_a_retention_below_what_the_protocol_needs_is_named_with_its_command(
    settings: Settings, home: Home
) -> None:
    names = Names(settings.topic_prefix)
    alter(admin_client(settings), names.half, "retention.ms", "3600000")
    retention = found(settings, home)[0]
    assert (retention.level, retention.about) == (Level.ERROR, f"topic {names.half}")
    assert "retention.ms=3600000; the protocol needs 518400000 or more" in retention.seen
    assert "file_reserved_hours (72)" in retention.seen
    assert f"--entity-name {names.half} --add-config retention.ms=518400000" in retention.remedy


def test_missing_topics_and_another_number_of_queues_are_named(
    settings: Settings, home: Home
) -> None:
    other = replace(settings, queues=3)
    about = [(one.about, one.seen) for one in found(other, home) if one.level is Level.ERROR]
    names = Names(settings.topic_prefix)
    seen = "it has 2 partitions, and queues is 3"
    assert about == [(f"topic {names.half}", seen), (f"topic {names.op}", seen)]
    nobody = replace(settings, topic_prefix="nobodys.")
    assert [one.about for one in found(nobody, home)] == [
        "topic nobodys.half",
        "topic nobodys.op",
    ]


def test_a_transaction_timeout_that_the_broker_refuses_is_named(
    settings: Settings, home: Home
) -> None:
    longer = replace(settings, kafka_transaction_timeout_ms=3_600_000)
    (refused, *_) = found(longer, home)
    assert refused.level is Level.ERROR and refused.about.startswith("broker ")
    assert refused.seen == (
        "transaction.max.timeout.ms is 900000, below kafka_transaction_timeout_ms (3600000)"
    )


@pytest.mark.parametrize(
    ("minutes", "level", "seen"),
    [
        (1, Level.OK, "some are open, for less than Kafka's limit of 15 min"),
        (16, Level.ERROR, "a transaction is open from offset 0 on"),
    ],
)
def test_a_transaction_that_kafka_should_have_ended_is_named(
    settings: Settings, home: Home, minutes: int, level: Level, seen: str
) -> None:
    topic = make_real(settings, f"real-{uuid.uuid4().hex[:8]}")
    with open_transaction({"bootstrap.servers": settings.bootstrap_servers}, topic, minutes):
        [named] = of_partition(f"{topic}:0", settings, home)
    assert named.level is level
    assert named.seen.startswith(seen)
    wait_until(lambda: not of_partition(f"{topic}:0", settings, home))


def test_a_login_that_may_not_read_does_not_tell_how_old_a_transaction_is(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    site = Site(secured, tmp_path)
    made = site.create("--acls")
    assert made.exit_code == 0, made.output
    topic = f"{site.real}-pay"
    with open_transaction(secured.options("admin"), topic, minutes=16):
        home = Home(tmp_path / "home")
        [named] = of_partition(f"{topic}:0", site.settings("pay"), home)
    assert named.level is Level.WARNING
    # It lacks the rights on the topic and on a group: either may be refused first.
    assert "authorization failed" in named.seen


@contextmanager
def open_transaction(options: dict[str, str], topic: str, minutes: int) -> Iterator[None]:
    """Keep a transaction open, whose producer says that its record is so old."""
    own = {"transactional.id": topic, "transaction.timeout.ms": 600_000}
    producer = Producer({**options, **own})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    produced_ms = time.time_ns() // 1_000_000 - minutes * 60_000
    producer.produce(topic, b"message", partition=0, timestamp=produced_ms)
    assert producer.flush(PATIENCE_SECONDS) == 0
    try:
        yield
    finally:
        producer.commit_transaction(PATIENCE_SECONDS)


def of_partition(partition: str, settings: Settings, home: Home) -> list[Finding]:
    return [one for one in examine(settings, home, ()) if partition in one.about + one.seen]


def test_a_checkpoint_and_the_marker_belong_together(
    settings: Settings, home: Home, delivered: str
) -> None:
    def of_checkpoint() -> list[tuple[Level, str]]:
        findings = examine(settings, home, ())
        return [(one.level, one.seen) for one in findings if one.about == "checkpoint"]

    ((level, seen),) = of_checkpoint()
    assert level is Level.WARNING and "has none, and" in seen
    checkpoint(home, delivered, 4)
    assert of_checkpoint() == [(Level.OK, "planned batch 4; last batch with output: none")]
    (home.resolve_checkpoint / "identity").write_text('"another"')
    ((level, seen),) = of_checkpoint()
    assert level is Level.ERROR
    assert seen.startswith(f"the marker is of checkpoint {delivered}, and ")


def test_tables_and_lands_checkpoint_belong_together(home: Home) -> None:
    def of_tables() -> list[tuple[Level, str, str]]:
        findings = examine(Settings(), home, ())
        return [(one.level, one.about, one.seen) for one in findings if "table" in one.about]

    write_tables(home.tables, half=[half(0, 0)])
    folder = home.land_checkpoint
    (folder / "offsets").mkdir(parents=True)
    (folder / "landed").mkdir()
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "offsets" / "7").write_text("v1")
    assert of_tables()[0][0] is Level.OK
    (folder / "landed" / "7").write_text(json.dumps({"half": 7}))
    assert of_tables() == [
        (
            Level.ERROR,
            "table half",
            f"{home.tables / 'half'} has batch None, and the checkpoint says 7: the table is older",
        )
    ]


def test_without_a_broker_it_says_so_and_goes_on_with_the_rest(home: Home) -> None:
    nowhere = Settings(bootstrap_servers="127.0.0.1:1")
    findings = list(examine(nowhere, home, ()))
    assert findings[-1].level is Level.ERROR and findings[-1].about == "connection"
    assert "no broker of 127.0.0.1:1 answers" in findings[-1].seen
    assert {"Java", "disk", "version"} <= {one.about for one in findings}


@pytest.mark.gate
def test_the_command_exits_by_the_worst_and_programs_get_json(
    settings: Settings, home: Home
) -> None:
    given = [
        "doctor",
        f"--home={home.path}",
        f"--bootstrap-servers={settings.bootstrap_servers}",
        f"--set=topic_prefix={settings.topic_prefix}",
    ]
    warned = CliRunner().invoke(app, [*given, "--set=queues=2", "-o", "json"])
    assert warned.exit_code == 6, warned.output
    rows = json.loads(warned.stdout)
    assert {row["level"] for row in rows} == {"ok", "warning"}
    wrong = CliRunner().invoke(app, [*given, "--set=queues=5"])
    assert wrong.exit_code == 7
    assert "-> set queues=2: the number is fixed once topics are made" in wrong.stdout
    unknown = CliRunner().invoke(app, [*given, "--role=nobody"])
    assert "no role 'nobody'" in str(unknown.exception)


def test_rights_that_a_login_lacks_for_a_role_are_named(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    site = Site(secured, tmp_path)
    made = site.create("--acls", "--land-principal=User:land")
    assert made.exit_code == 0, made.output

    def lacking(*roles: str) -> list[str]:
        findings = examine(site.settings("land"), Home(tmp_path / "home"), roles)
        return [one.seen for one in findings if one.about.startswith("rights of ")]

    assert lacking("land") == ["this login has all that Kafka tells of"]
    resolver = lacking("resolver")
    assert f"this login may not write topic {site.names.half}" in resolver
    assert f"this login may not read group {site.names.resolver}" in resolver
    assert f"this login may not read topic {site.names.half}" not in resolver
