"""Operators' acts on a real broker and a small ledger: each once, whoever does it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Message as KafkaMessage
from typer.testing import CliRunner

from resolver.broker import Broker
from resolver.cli import app
from resolver.errors import ActRefused, OperationError, SettingsError
from resolver.operations import OperationTable
from resolver.protocol import Half, TransactionStatus, decode_claim, decode_op
from resolver.protocol.names import RESUMES
from resolver.views import Ledger
from tests.support.patience import PATIENCE_SECONDS
from tests.support.reading import committed_records, end_offsets
from tests.support.tables import Row, half, outcome, write_tables
from tests.support.world import header, headers_of

from .protocol_topics import ProtocolTopics

#: So many chunks that some are left when a kill comes, on a slow machine too.
MANY = 3_000


class Site:
    """Topics, and a ledger: MANY transactions each in queues 0 and 1, of one status."""

    def __init__(self, topics: ProtocolTopics, folder: Path) -> None:
        self.topics = topics
        self.tables = folder / "tables"
        self.folder = folder

    def fill(self, word: str | None, count: int = 2) -> None:
        """Write halves into the ledger, and their outcomes if they have one."""
        topic = {"source_topic": self.topics.names.half}
        halves = [{**message(number % 2, number // 2), **topic} for number in range(count)]
        ends = [
            outcome(row["queue"], row["offset"], word, source_offset=number)
            for number, row in enumerate(halves)
            if word is not None
        ]
        checks = [
            {**{name: row[name] for name in ("queue", "offset", "transaction_id", "group")},
             "topic": row["topic"], "checks": 1}
            for row in halves
            if word is None
        ]  # fmt: skip
        write_tables(self.tables, half=halves, resolution=ends, check=checks)

    def arguments(self, *arguments: str) -> list[str]:
        connection = (
            f"--tables={self.tables}",
            f"--bootstrap-servers={self.topics.bootstrap}",
            f"--set=topic_prefix={self.topics.names.prefix}",
            "--set=kafka.socket.timeout.ms=60000",  # an act's Kafka transaction is shorter
            f"--home={self.folder / 'home'}",
        )
        return [*arguments, *connection]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "resolver", *self.arguments(*arguments)]

    def run(self, *arguments: str) -> str:
        """Run a command in this process, and return what it said."""
        done = CliRunner().invoke(app, self.arguments(*arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def refused(self, *arguments: str) -> str:
        """Run a command that is refused, and return the error."""
        with pytest.raises((ActRefused, SettingsError)) as refusal:
            CliRunner().invoke(app, self.arguments(*arguments), catch_exceptions=False)
        assert refusal.value.exit_code == 2
        return str(refusal.value)

    def run_killed(self, *arguments: str, after: str) -> str:
        """Run a command, kill it once it says `after`, and return its operation's id."""
        running = subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert running.stdout is not None
        said, id_ = "", ""
        for line in running.stdout:
            said += line
            if line.startswith("operation "):
                id_ = line.split()[1].rstrip(":")
            if after in line:
                break
        running.send_signal(signal.SIGKILL)
        running.wait(PATIENCE_SECONDS)
        running.stdout.close()
        assert after in said, said
        assert running.returncode == -signal.SIGKILL
        return id_

    def records_of_claims(self) -> int:
        """Return the end of the topic of claims, also of those that are not committed."""
        topic = self.topics.names.operation
        return end_offsets(self.topics.options, topic, [0], "read_uncommitted")[0]

    def halves(self) -> list[KafkaMessage]:
        return committed_records(self.topics.options, self.topics.names.half)

    def ops(self) -> list[KafkaMessage]:
        return committed_records(self.topics.options, self.topics.names.op)


@pytest.fixture
def site(kafka: Broker, prefix: str, tmp_path: Path) -> Site:
    topics = ProtocolTopics(kafka.bootstrap, prefix)
    topics.make("orders")
    return Site(topics, tmp_path)


def half_of(transaction_id: str) -> Half:
    return Half(transaction_id, "orders", "orders.placed", 7, b"key", b"body", [("trace", None)])


def message(queue: int, offset: int) -> Row:
    """A row of `half` with the record that it came from."""
    sent = half_of(f"tx-{queue}-{offset}").to_record("tx.half")
    headers = [{"key": name, "value": value} for name, value in sent.headers]
    return half(queue, offset, key=sent.key, value=sent.value, headers=headers)


def resumed(halves: Sequence[KafkaMessage]) -> list[str]:
    return [str(header(one, RESUMES)) for one in halves]


def all_ids() -> set[str]:
    return {f"{number % 2}:{number // 2}" for number in range(MANY)}


@pytest.mark.gate
def test_settle_sends_the_operator_s_ends(site: Site) -> None:
    site.fill(None)
    site.run("settle", "0:0", "--commit", "--reason=paid by hand", "--actor=ada", "--wait=0")
    [record] = site.ops()
    op = decode_op(record.value(), headers_of(record))
    assert record.partition() == 0
    assert (op.state, op.group, op.actor) == (TransactionStatus.COMMIT_MESSAGE, "orders", "ada")
    assert [(one.offset, one.transaction_id) for one in op.elements] == [(0, "tx-0-0")]


@pytest.mark.gate
def test_ask_sends_an_operator_s_question(site: Site) -> None:
    site.fill(None)
    said = site.run("ask", "--group=orders", "--reason=it is back", "--yes")
    assert "ask: 2 of 2 transactions" in said
    ops = [decode_op(record.value(), headers_of(record)) for record in site.ops()]
    assert [(op.state, op.from_check) for op in ops] == [(TransactionStatus.UNKNOWN, False)] * 2
    assert all(op.actor for op in ops)


@pytest.mark.gate
def test_resume_stores_the_half_once_more_with_the_old_one_s_name(site: Site) -> None:
    site.fill("DISCARD")
    site.run("resume", "tx-1-0", "--reason=the topic is there")
    [again] = site.halves()
    assert again.partition() == 1
    assert (again.key(), again.value()) == (b"key", b"body")
    old = message(1, 0)["headers"]
    sent = [(header["key"], header["value"]) for header in old]
    assert again.headers() == [*sent, (RESUMES, b"1:0")]


@pytest.mark.gate
def test_replay_writes_the_commit_once_more(site: Site) -> None:
    site.fill("COMMIT")
    site.topics.make_real(f"{site.topics.names.prefix[:-1]}again")
    to = f"{site.topics.names.prefix[:-1]}again"
    said = site.run("replay", "--group=orders", f"--to={to}", "--reason=lost", "--yes")
    assert "replay: 2 of 2 transactions" in said
    names = [("trace", None), ("UNIQ_KEY", b"tx-0-0"), ("PGROUP", b"orders"),
             ("BORN_TIMESTAMP", b"7"), ("HALF_OFFSET", b"0:0")]  # fmt: skip
    found = {
        dict(one.headers() or [])["HALF_OFFSET"]: one
        for one in committed_records(site.topics.options, to)
    }
    assert found.keys() == {b"0:0", b"1:0"}
    assert found[b"0:0"].headers() == names
    assert (found[b"0:0"].key(), found[b"0:0"].value()) == (b"key", b"body")


def test_it_is_written_down_before_anything_is_done(site: Site) -> None:
    site.fill("DISCARD")
    site.run("resume", "0:0", "--reason=why not", "--actor=ada")
    site.run("resume", "--status=DISCARD", "--reason=all of them", "--yes", "--actor=bob")
    rows = OperationTable(str(site.tables)).all()
    assert [(row["act"], row["actor"], row["chosen"], row["hit"]) for row in rows] == [
        ("resume", "bob", 1, 1),
        ("resume", "ada", 1, 1),
    ]
    assert sorted(resumed(site.halves())) == ["0:0", "1:0"]
    said = CliRunner().invoke(app, ["log", f"--tables={site.tables}"]).output
    assert "why not" in said and "all of them" in said


@pytest.mark.parametrize(
    ("word", "command", "why"),
    [
        ("COMMIT", ["resume", "0:0"], "0:0 is COMMIT: only a discarded or undeliverable message"),
        ("COMMIT", ["settle", "0:0", "--rollback"], "0:0 is COMMIT: only a pending transaction"),
        ("DISCARD", ["replay", "0:0", "--to=x"], "0:0 is DISCARD: only a committed message"),
        ("DISCARD", ["ask", "0:0"], "0:0 is DISCARD: only a pending transaction is asked about"),
        ("DISCARD", ["resume"], "nothing is chosen; give ids, or a filter"),
        ("DISCARD", ["resume", "--group=orders"], "Nobody can answer here"),
        ("DISCARD", ["resume", "--status=commit"], "--status COMMIT can't be chosen for resume"),
        ("DISCARD", ["settle", "0:0"], "give either --commit or --rollback"),
        ("DISCARD", ["resume", "0:0", "--reason= "], "--reason is empty"),
        (None, ["erase", "0:0"], "0:0 is PENDING: only a transaction that has ended is erased"),
    ],
)
def test_what_does_not_apply_is_refused_with_the_reason(
    site: Site, word: str | None, command: list[str], why: str
) -> None:
    site.fill(word)
    assert why in site.refused(*command[:1], "--reason=x", *command[1:])
    assert site.halves() == site.ops() == []
    assert OperationTable(str(site.tables)).all() == []


def test_the_beginning_of_an_id_is_confirmed(site: Site) -> None:
    site.fill(None, count=1)
    said = site.refused("settle", "tx-0", "--commit", "--reason=it is paid")
    assert "settle 1 transactions? Nobody can answer here" in said
    assert site.ops() == []


def test_a_ledger_of_other_topics_is_refused(site: Site) -> None:
    write_tables(site.tables, half=[{**message(0, 0), "source_topic": "other.half"}])
    said = site.refused("ask", "0:0", "--reason=it is back")
    assert f"landed from other.half, and topic_prefix is {site.topics.names.prefix!r}" in said


def test_tables_without_brokers_are_refused(site: Site) -> None:
    site.fill(None)
    command = ["ask", "0:0", "--reason=it is back", f"--tables={site.tables}"]
    with pytest.raises(SettingsError, match="give --bootstrap-servers of the Kafka"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_a_dry_run_says_what_would_be_hit_and_does_nothing(site: Site) -> None:
    site.fill("UNDELIVERABLE")
    said = site.run("resume", "--group=orders", "--reason=x", "--dry-run")
    assert "tx-0-0" in said and "resume: 2 transactions would be hit; nothing was done" in said
    assert site.halves() == []
    assert OperationTable(str(site.tables)).all() == []


def test_what_was_resumed_is_not_resumed_again(site: Site) -> None:
    site.fill("DISCARD")
    site.run("resume", "0:0", "--reason=once")
    again = site.refused("resume", "0:0", "--reason=twice")
    assert "0:0 was resumed already, by operation" in again
    said = site.run("resume", "--group=orders", "--reason=rest", "--yes")
    assert "left out: 1, resumed already" in said
    assert sorted(resumed(site.halves())) == ["0:0", "1:0"]


def test_two_operators_at_the_same_moment_resume_each_message_once(site: Site) -> None:
    site.fill("DISCARD", MANY)
    act = ("resume", "--group=orders", "--reason=both", "--yes")
    with ThreadPoolExecutor(2) as operators:
        done = operators.map(lambda _: subprocess.call(site.command(*act)), range(2))
        assert list(done) == [0, 0]
    assert Counter(resumed(site.halves())) == dict.fromkeys(all_ids(), 1)
    assert sum(row["hit"] for row in OperationTable(str(site.tables)).all()) == MANY


@pytest.mark.parametrize(
    "kind", [pytest.param("resume", marks=pytest.mark.gate), "settle", "ask", "replay"]
)
def test_killed_in_the_middle_and_begun_again_nothing_is_done_twice(site: Site, kind: str) -> None:
    """kill -9: once between two chunks, and once in the midst of one, with its claim written."""
    site.fill({"resume": "UNDELIVERABLE", "replay": "COMMIT"}.get(kind), MANY)
    to = f"{site.topics.names.prefix[:-1]}again"
    site.topics.make_real(to)
    own = {"replay": [f"--to={to}"], "settle": ["--commit", "--wait=0"]}.get(kind, [])
    act = (kind, "--group=orders", "--reason=x", "--yes", *own)
    id_ = site.run_killed(*act, after=f"200 of {MANY}")
    written = site.records_of_claims()
    running = subprocess.Popen(site.command("continue", id_), stdout=subprocess.DEVNULL)
    while site.records_of_claims() == written:
        assert running.poll() is None
    running.kill()
    assert running.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    if kind == "settle":
        write_tables(site.tables, resolution=[outcome(0, 0, "COMMIT", source="OPERATOR")])
    said = site.run("continue", id_, "--wait=0")
    assert ("1 ended as COMMIT, by OPERATOR" in said) is (kind == "settle")
    assert f"{MANY} of {MANY} transactions" in said
    assert f"operation {id_} is done: it has hit {MANY}" in site.run("continue", id_)

    assert Counter(acted_on(site, kind, to)) == dict.fromkeys(all_ids(), 1)
    assert set(claims(site)) == {id_}
    [row] = OperationTable(str(site.tables)).all()
    assert (row["chosen"], row["hit"]) == (MANY, MANY)


def test_a_record_that_kafka_does_not_take_is_left_out_and_all_others_are_done(site: Site) -> None:
    """The topic takes a few of the records together, and one of them not at all."""
    site.fill("COMMIT", 9)
    topic = {"source_topic": site.topics.names.half}
    large = {**message(0, 9), **topic, "value": b"x" * 5_000}
    write_tables(site.tables, half=[large], resolution=[outcome(0, 9, "COMMIT", source_offset=9)])
    to = f"{site.topics.names.prefix[:-1]}small"
    site.topics.make_real(to, 1, **{"max.message.bytes": "1000"})
    said = site.run("replay", "--group=orders", f"--to={to}", "--reason=x", "--yes")
    assert "replay: 9 of 10 transactions" in said
    assert "left out: 1, whose records Kafka refuses: 0:9" in said
    assert "meanwhile" not in said
    again = acted_on(site, "replay", to)
    assert sorted(again) == sorted(f"{number % 2}:{number // 2}" for number in range(9))


def acted_on(site: Site, kind: str, to: str) -> list[str]:
    """Return the half ids of the transactions on which an act was done, as often as it was."""
    if kind == "resume":
        return resumed(site.halves())
    if kind == "replay":
        again = committed_records(site.topics.options, to)
        return [str(header(one, "HALF_OFFSET")) for one in again]
    return [
        f"{record.partition()}:{element.offset}"
        for record in site.ops()
        for element in decode_op(record.value(), headers_of(record)).elements
    ]


def claims(site: Site) -> list[str]:
    """Return the operations of the claims that are there now."""
    found = committed_records(site.topics.options, site.topics.names.operation)
    return [decode_claim(one.value()).operation for one in found]


def test_without_the_topic_of_claims_it_says_what_to_do(kafka: Broker, tmp_path: Path) -> None:
    nowhere = Site(ProtocolTopics(kafka.bootstrap, "nowhere."), tmp_path)
    nowhere.fill("DISCARD")
    arguments = nowhere.arguments("resume", "0:0", "--reason=x")
    with pytest.raises(OperationError, match="make the topic, as with `txresolver topics create`"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.gate
def test_erase_says_what_kafka_still_has_and_until_when(site: Site) -> None:
    site.fill("COMMIT")
    site.topics.write(half_of("tx-0-0").to_record(site.topics.names.half, 0))
    row = {"queue": 0, "offset": 0, "source_topic": "gone.check", "source_offset": 5}
    write_tables(site.tables, check=[row])
    act = ("erase", "0:0", "--reason=asked for")
    would = site.run(*act, "--dry-run")
    assert "erase: 1 transactions would be hit; nothing was done" in would
    half_topic = site.topics.names.half
    until_then = "2026-02-07 10:05 (UTC) at the latest"
    for said in (would, site.run(*act)):
        assert f"{half_topic} has a record of it, until {until_then}" in said
        assert "orders.placed may have it, until" in said
        assert "gone.check: Kafka has no such topic any more" in said
    body = CliRunner().invoke(app, ["show", "0:0", "--body", f"--tables={site.tables}"]).output
    assert "key: null\nvalue: null\n" in body and "ERASED" in body
    again = site.refused("replay", "0:0", "--to=x", "--reason=y")
    assert "0:0 was erased, by operation" in again
    said = site.run("replay", "--group=orders", "--to=x", "--reason=y", "--dry-run")
    assert "left out: 1, erased" in said


def test_erase_names_a_compacted_topic_and_the_copies_that_operators_made(site: Site) -> None:
    compacted = f"{site.topics.names.prefix[:-1]}table"
    site.topics.make_real(compacted, 2, **{"cleanup.policy": "compact"})
    site.fill("COMMIT")
    site.run("replay", "0:0", f"--to={compacted}", "--reason=lost")
    resumed_one = half(0, 9, transaction_id="tx-0-0", source_topic=site.topics.names.half)
    write_tables(site.tables, half=[resumed_one])
    said = site.run("erase", "0:0", "--reason=asked for")
    assert f"{compacted} may have it, until a later record has its key: send a tombstone" in said
    assert "0:9 have the same transaction id" in said


def test_an_erasure_that_was_killed_goes_on(site: Site) -> None:
    site.fill("ROLLBACK", MANY)
    act = ("erase", "--group=orders", "--reason=x", "--yes")
    id_ = site.run_killed(*act, after="operation ")
    assert f"erase: {MANY} of {MANY} transactions" in site.run("continue", id_)
    assert f"operation {id_} is done: it has hit {MANY}" in site.run("continue", id_)
    ledger = Ledger(tables=site.tables)
    [left] = ledger.sql("SELECT count(*) AS n FROM half WHERE value IS NOT NULL").to_pylist()
    assert left["n"] == 0
    assert committed_records(site.topics.options, site.topics.names.operation) == [], (
        "it needs no claim"
    )
