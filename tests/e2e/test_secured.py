"""The whole on a broker with TLS, SCRAM and ACLs, by the rights of `topics create --acls`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from resolver import Message, TransactionProducer
from resolver.protocol import Element, Half, Op
from tests.support.commands import Command, command
from tests.support.patience import PATIENCE_SECONDS
from tests.support.secured import SecuredBroker, Site
from tests.support.time_limit import takes
from tests.support.world import COMMIT, ROLLBACK, World, header, position_of

LISTENER = """
from resolver import TransactionListener, TransactionStatus


class Commits(TransactionListener):
    def check_local_transaction(self, message):
        return TransactionStatus.COMMIT_MESSAGE
"""
CONFIG = """
topic_prefix = "{prefix}"
queues = 2
transaction_timeout_ms = 1000
land_trigger_interval_ms = 2000

[spark]
"spark.eventLog.enabled" = "true"
"spark.eventLog.dir" = "file://{events}"
"spark.eventLog.compress" = "false"
# How long Java's client asks for a topic that is gone.
"kafka.request.timeout.ms" = "5000"
"kafka.default.api.timeout.ms" = "5000"
{java_login}

[kafka]
"security.protocol" = "sasl_ssl"
"ssl.ca.location" = "{certificate}"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = "{user}"
"""
JAVA_LOGIN = """
"kafka.sasl.mechanism" = "SCRAM-SHA-512"
"kafka.sasl.jaas.config" = '''
org.apache.kafka.common.security.scram.ScramLoginModule required
username="{user}" password="{password}";
'''
"""
PASSWORD = "TXRESOLVER_KAFKA__SASL_PASSWORD"  # noqa: S105 - a variable's name


@pytest.fixture
def site(secured: SecuredBroker, tmp_path: Path) -> Site:
    site = Site(secured, tmp_path)
    principals = (f"--{role}-principal=User:{role}" for role in ("resolver", "auditor"))
    done = site.create("--acls", *principals)
    assert done.exit_code == 0, done.output
    return site


@pytest.fixture
def world(site: Site) -> Iterator[World]:
    """What an administrator sees."""
    login = site.broker.users.login("admin")
    world = World(site.broker.bootstrap, site.names.prefix, login=login)
    yield world
    world.close()


def config(site: Site, folder: Path, user: str, *more: str, java_login: str = "") -> Path:
    """Write the settings of a user: all but the password, unless `more` gives it."""
    text = CONFIG.format(
        java_login=java_login,
        prefix=site.names.prefix,
        certificate=site.broker.users.certificate,
        user=user,
        events=folder / "home" / "events",
    )
    path = folder / f"login-{user}.toml"
    path.write_text("\n".join([text, *more, site.config.read_text()]))
    return path


@pytest.mark.gate
@takes(300, "the start of up")
def test_all_works_by_the_granted_rights_and_no_password_is_seen(
    site: Site, world: World, tmp_path: Path
) -> None:
    home, users = tmp_path / "home", site.broker.users
    (tmp_path / "shop.py").write_text(LISTENER)
    agent = ["agent", "--group=orders", "--listener=shop:Commits"]
    agent.append(f"--bootstrap-servers={site.broker.bootstrap}")
    agent.append(f"--config={config(site, tmp_path, 'orders')}")
    in_env = {PASSWORD: users.password("orders")}
    with command(*up(site, tmp_path), log=home / "up.log") as resolver:
        resolver.until_said("ready:")
        open_half = send_as_orders(site)
        send_made_up_end(site, open_half)
        send_to_another_groups_topic(site)
        with command(*agent, log=home / "agent.log", cwd=tmp_path, env=in_env) as answering:
            outcomes = {(said.source.value, said.outcome.value) for said in world.resolutions(3)}
            seen = command_lines(resolver.process.pid, answering.process.pid)
        refused = {header(one, "REASON") for one in world.quarantined(1)}
        undelivered = {one.value() for one in world.discarded(1)}
        messages = world.reader(f"{site.real}.placed").until(2)
        landed(home, "quarantine", 1)
        landed(home, "discarded", 1)
        landed(home, "resolution", 3)
        # Spark prints the plan of a query that fails.
        world.admin.delete_topics([site.names.half])[site.names.half].result(PATIENCE_SECONDS)
        assert resolver.exit_code() == 1

    committed = {("END", "COMMIT"), ("CHECK", "COMMIT")}
    assert outcomes == committed | {("DELIVERY", "UNDELIVERABLE")}
    assert sorted(str(one.value()) for one in messages) == ["b'ended'", "b'open'"]
    assert (refused, undelivered) == ({"TRANSACTION_MISMATCH"}, {b"not for orders"})
    passwords = [users.password(user) for user in ("resolver", "orders")]
    assert [line for line in seen if any(word in line for word in passwords)] == []
    assert shows_spark(seen)
    assert holding(home, passwords) == []
    # Else the search above would have searched little.
    assert {"up.log", "half"} <= set(holding(home, [site.names.half]))
    assert any(name.startswith("events") for name in holding(home, ["SQLExecutionStart"]))


def test_an_audit_works_by_its_granted_rights_and_no_password_is_seen(
    site: Site, tmp_path: Path
) -> None:
    home, users = tmp_path / "home", site.broker.users
    with command(*up(site, tmp_path), log=home / "up.log") as resolver:
        resolver.until_said("ready:")
        send_as_orders(site)
        landed(home, "half", 2)
        landed(home, "resolution", 1)
        own = f'"sasl.password" = "{users.password("auditor")}"'
        java = JAVA_LOGIN.format(user="auditor", password=users.password("auditor"))
        audit = ["audit", f"--home={home}", "--topics"]
        audit.append(f"--bootstrap-servers={site.broker.bootstrap}")
        audit.append(f"--config={config(site, tmp_path, 'auditor', own, java_login=java)}")
        with command(*audit, log=home / "audit.log") as auditing:
            seen = command_lines_with_spark(auditing)
            assert auditing.exit_code() == 0, auditing.output()

    passwords = [users.password(user) for user in ("resolver", "auditor")]
    assert [line for line in seen if any(word in line for word in passwords)] == []
    assert holding(home, passwords) == []
    assert "audit.log" in holding(home, ["There are: 2 halves"])


def up(site: Site, folder: Path) -> list[str]:
    """Return the command of the resolver, with its password in the file of its settings."""
    (folder / "home" / "events").mkdir(parents=True)
    in_file = f'"sasl.password" = "{site.broker.users.password("resolver")}"'
    return [
        *("up", f"--home={folder / 'home'}", "--verbose"),
        f"--bootstrap-servers={site.broker.bootstrap}",
        f"--config={config(site, folder, 'resolver', in_file)}",
    ]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(["up", "--home={home}", "--verbose"], id="up", marks=pytest.mark.gate),
        pytest.param(["topics", "create"], id="topics"),
    ],
)
def test_a_wrong_password_is_said_and_not_shown(
    site: Site, tmp_path: Path, asked: list[str]
) -> None:
    home, wrong = tmp_path / "home", "not-the-password-at-all"
    (home / "events").mkdir(parents=True)
    settings = config(site, tmp_path, "resolver", f'"sasl.password" = "{wrong}"')
    servers = f"--bootstrap-servers={site.broker.bootstrap}"
    given = [word.format(home=home) for word in asked]
    said = [*given, servers, f"--config={settings}"]
    with command(*said, log=home / "said.log") as refused:
        assert refused.exit_code() == 2
        assert "invalid credentials" in refused.output()
        assert "check bootstrap_servers and the security options of [kafka]" in refused.output()
    assert holding(home, [wrong]) == []


def test_an_agent_with_a_wrong_password_says_so_and_does_not_show_it(
    site: Site, tmp_path: Path
) -> None:
    """It waits, as for a cluster that is away."""
    wrong, log = "not-the-password-at-all", tmp_path / "logs" / "agent.log"
    log.parent.mkdir()
    (tmp_path / "shop.py").write_text(LISTENER)
    settings = config(site, tmp_path, "orders")
    agent = ["agent", "--group=orders", "--listener=shop:Commits", f"--config={settings}"]
    agent.append(f"--bootstrap-servers={site.broker.bootstrap}")
    with command(*agent, log=log, cwd=tmp_path, env={PASSWORD: wrong}) as waiting:
        waiting.until_said("invalid credentials")
        waiting.signal(signal.SIGTERM)
        assert waiting.exit_code() == 0
    assert wrong not in log.read_text()


def send_as_orders(site: Site) -> Message:
    """Send a half that is ended, and one that is not."""
    with TransactionProducer(
        "orders",
        site.broker.bootstrap,
        checks_elsewhere=True,
        topic_prefix=site.names.prefix,
        kafka=site.broker.users.login("orders"),
    ) as producer:
        with producer.transaction(Message(f"{site.real}.placed", b"ended")):
            pass
        return producer.begin(Message(f"{site.real}.placed", b"open")).message


def send_made_up_end(site: Site, message: Message) -> None:
    """Try, as another group's application, to end a transaction whose id it can't know."""
    queue, offset = map(int, message.half_offset.split(":"))
    op = Op(ROLLBACK, "orders", (Element(0, offset, "made-up"),)).to_record(site.names.op, queue)
    producer = Producer(site.broker.options("pay"))
    producer.produce(op.topic, op.value, partition=queue, headers=list(op.headers))
    assert producer.flush(PATIENCE_SECONDS) == 0


def send_to_another_groups_topic(site: Site) -> None:
    """Store and commit a half by a client that knows no policy."""
    topic, body = f"{site.real}-pay", b"not for orders"
    record = Half("foreign", "orders", topic, 1, None, body, []).to_record(site.names.half, 0)
    producer = Producer(site.broker.options("orders"))
    stored: list[int] = []
    producer.produce(
        record.topic,
        record.value,
        partition=0,
        headers=list(record.headers),
        on_delivery=lambda _error, message: stored.append(position_of(message)[1]),
    )
    assert producer.flush(PATIENCE_SECONDS) == 0
    op = Op(COMMIT, "orders", (Element(0, stored[0], "foreign"),)).to_record(site.names.op, 0)
    producer.produce(op.topic, op.value, partition=0, headers=list(op.headers))
    assert producer.flush(PATIENCE_SECONDS) == 0


def command_lines(*pids: int) -> list[str]:
    """Return what the list of processes shows of these and all below them."""
    parents = [psutil.Process(pid) for pid in pids]
    below = [child for parent in parents for child in parent.children(recursive=True)]
    lines = []
    for process in parents + below:
        with suppress(psutil.NoSuchProcess):  # one that has just ended
            lines.append(" ".join(process.cmdline()))
    return lines


def command_lines_with_spark(running: Command) -> list[str]:
    """Return what the list of processes shows of a command once its JVM is there."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not shows_spark(lines := command_lines(running.process.pid)):
        assert running.process.poll() is None, running.output()
        assert time.monotonic() < until, running.output()
        time.sleep(0.05)
    return lines


def shows_spark(lines: list[str]) -> bool:
    """Whether a JVM is among them, with the session's options as its arguments."""
    return any("bin/java" in line and "--conf spark.eventLog.dir=" in line for line in lines)


def landed(home: Path, table: str, rows: int) -> None:
    """Wait until a table has this many rows."""
    until = time.monotonic() + PATIENCE_SECONDS
    while len(DeltaTable(home / "tables" / table).to_pandas()) < rows:
        assert time.monotonic() < until, f"{table} has not {rows} rows"
        time.sleep(0.1)


def holding(home: Path, words: list[str]) -> list[str]:
    """Return the files with one of the words, and the tables: those are compressed."""
    found = []
    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if any(word.encode() in content for word in words):
                found.append(os.path.relpath(path, home))
    for path in (home / "tables").glob("*"):
        rows = DeltaTable(path).to_pandas().to_dict("records")
        if any(word in str(rows) for word in words):
            found.append(path.name)
    return found
