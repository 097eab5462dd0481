"""The audit of a genuine ledger: it holds, also beside the resolver, and finds any damage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.audit.report import Invariant, Report
from resolver.broker import Broker
from resolver.broker.jars import cache_folder
from resolver.errors import AuditError
from resolver.settings import Settings
from resolver.views import Filter, Ledger
from resolver.what_if import compare, read_history
from tests.support.commands import command
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.time_limit import takes

from .copied import Copy, as_if_of, more
from .damage import FAR, Damage, damage_tables, harmless_changes, is_malformed_half
from .damage_topic import commit_unlanded, damage_topic, forget_landed
from .ledger_story import QUEUES, SHORT, Story, tell

ALL = 1_000


@pytest.fixture(scope="module")
def beside() -> list[Report]:
    """What was found while the story ran."""
    return []


@pytest.fixture(scope="module")
def story(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    kafka: Broker,
    tmp_path_factory: pytest.TempPathFactory,
    beside: list[Report],
) -> Iterator[Story]:
    is_asked = any(
        item.name == test_it_holds_beside_the_running_resolver.__name__
        for item in request.session.items
    )

    def audit_now(running: Story) -> None:
        wait_until(lambda: _has_rows(running.tables / "half"))
        beside.append(audit(spark, running, running.tables, topics=True))

    prefix = f"t{uuid.uuid4().hex[:8]}."
    folder = tmp_path_factory.mktemp("ledger")
    told = tell(spark, kafka.bootstrap, prefix, folder, audit_now if is_asked else None)
    yield told
    told.world.close()


def _has_rows(table: Path) -> bool:
    is_there = DeltaTable.is_deltatable(str(table))
    return is_there and DeltaTable(table).to_pyarrow_dataset().count_rows() > 0


def audit(spark: SparkSession, story: Story, tables: Path, topics: bool) -> Report:
    return audited(spark, story.settings, str(tables), topics, ALL)


@takes(600, "the story of the ledger, and an audit beside it")
def test_it_holds_beside_the_running_resolver(story: Story, beside: list[Report]) -> None:
    (report,) = beside
    assert report.holds, "\n".join(report.lines())
    assert report.counts["halves"] > 0


@pytest.mark.gate
@takes(400, "the story of the ledger, which all tests here share")
def test_it_holds_when_all_has_landed(spark: SparkSession, story: Story) -> None:
    report = audit(spark, story, story.tables, topics=True)
    assert report.holds, "\n".join(report.lines())
    checked = {finding.invariant: finding.checked for finding in report.findings}
    undeliverable = len(story.undeliverable)
    ended = len(story.committed) + len(story.rolled_back) + undeliverable + 13
    assert checked[Invariant.FIRST_END] == ended - 1
    assert checked[Invariant.DELIVERED] == len(story.committed) + 11
    assert checked[Invariant.NOT_DELIVERED] == len(story.rolled_back) + 6
    assert checked[Invariant.QUARANTINE] == 13
    assert min(checked.values()) > 0
    assert {name: count for name, count in report.counts.items() if count} == {
        "halves": ended + 4,
        "outcomes": ended,
        "refused_halves": 1,
        "pending": 3,
        "outcomes_of_unreadable_ops": 1,
        "unreadable_ops": 1,
        "halves_of_topics_not_read": undeliverable,
    }
    assert report.undeliverable == {
        "topic nowhere does not exist; make it with `txresolver topics create --topic nowhere`": (
            undeliverable
        )
    }


def test_what_if_by_the_settings_of_then_ends_all_as_recorded(story: Story) -> None:
    """All but the one whose op only the resolver could read."""
    history = read_history(Ledger(tables=story.tables), Filter())
    found = compare(history, story.settings, replace(story.settings, transaction_check_max=1_000))
    unread = story.by_name["deep"].half.transaction_id
    assert [one.transaction_id for one in found.otherwise] == [unread]
    assert found.transactions == found.as_recorded + 1
    given_up = story.by_name["given_up"].half.transaction_id
    assert {one.transaction_id: (one.now, one.then) for one in found.differences} == {
        given_up: ("DISCARD by LIMIT, CHECK_MAX", "COMMIT by END")
    }


def test_a_message_behind_one_with_a_later_op_is_found(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    """As if the last message of a partition had been ended by the queue's first op."""
    copy, last = Copy(story, tmp_path / "tables"), story.committed[-1 - 8]
    first = copy.first_op(last.queue)["source_offset"]
    copy.repeat_where(
        "op",
        lambda row: row["queue"] == last.queue and last.offset in (row["offsets"] or []),
        offsets=[last.offset],
        transaction_ids=[last.half.transaction_id],
        source_offset=first,
    )
    copy.change("resolution", last, op_offset=first)
    copy.save()
    report = audit(spark, story, copy.folder, topics=True)
    (found,) = [one for one in report.findings if one.invariant is Invariant.IN_ORDER]
    assert [one.half for one in found.examples] == [last.half_id]
    said = f"ended by op {last.queue}:{first}, behind a message of op {last.queue}:"
    assert found.examples[0].detail.startswith(said)


class Damaged(NamedTuple):
    """A copy of the story's tables with damages, of which some are harmless."""

    tables: Path
    damages: list[Damage]
    harmless: list[Damage]


@pytest.fixture(scope="module")
def damaged(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """Damage a copy of the tables, and the real topics: an audit of them does not hold any more."""
    copy = Copy(story, tmp_path_factory.mktemp("damaged") / "tables")
    forget_landed(story)
    commit_unlanded(story)
    harmless = list(harmless_changes(copy, story))
    damages = [*damage_tables(copy, story), *damage_topic(story)]
    return Damaged(copy.folder, damages, harmless)


@pytest.mark.gate
def test_it_finds_each_damage(
    spark: SparkSession, story: Story, damaged: Damaged, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine the last ops land later than that. Then the audit judges no check.
    monkeypatch.setattr("resolver.audit.overdue._LANDING_MS", 1_000 * PATIENCE_SECONDS)
    report = audit(spark, story, damaged.tables, topics=True).as_json()
    damages, harmless = damaged.damages, damaged.harmless
    assert missed(damages, report) == []
    assert missed(harmless, report) == [one.name for one in harmless]
    harmed = {damage.half for damage in damages + harmless}
    found = [one for of_kind in violations(report).values() for one in of_kind]
    assert [one for one in found if one[1] not in harmed] == []
    assert found.count((None, None)) == 3


def test_the_command_prints_all_that_it_finds(
    story: Story, damaged: Damaged, tmp_path: Path, kafka: Broker
) -> None:
    audit_command = [
        *("audit", f"--tables={damaged.tables}", "--topics", "--json", f"--examples={ALL}"),
        "--set=spark.driver.extraJavaOptions=-Xlog:gc",  # to the JVM's standard output
        f"--bootstrap-servers={kafka.bootstrap}",
        *(f"--set={name}={value}" for name, value in SHORT.items()),
        *(f"--set=topic_prefix={story.settings.topic_prefix}", f"--set=queues={QUEUES}"),
    ]
    errors = tmp_path / "audit.err"
    with command(*audit_command, log=tmp_path / "audit.json", errors=errors) as running:
        assert running.exit_code() == 1, errors.read_text()
        report = json.loads(running.output())
    home = Path(".txresolver") / "logs" / "libraries.log"
    logs = [home, cache_folder().parent / "logs" / home.name]
    assert any("[gc] " in log.read_text() for log in logs if log.exists())
    assert "[gc] " not in errors.read_text()
    # Checks in time are judged by the test before: here a slow machine may have landed too late.
    surely = [one for one in damaged.damages if one.invariant is not Invariant.OVERDUE]
    assert missed(surely, report) == []
    assert missed(damaged.harmless, report) == [one.name for one in damaged.harmless]


def test_asking_on_and_on_is_found(spark: SparkSession, story: Story, tmp_path: Path) -> None:
    """Of what is pending no outcome says how many answers were counted."""
    copy, pending = Copy(story, tmp_path / "tables"), story.by_name["pending"]
    asked, since = story.by_name["asked"], datetime.now(timezone.utc)

    def first_check(row: dict[str, Any]) -> bool:
        return (row["transaction_id"], row["checks"]) == (asked.half.transaction_id, 1)

    for number in range(1, 5):
        at = since + number * timedelta(seconds=10)
        checked = {**as_if_of(pending), "checks": number, "source_timestamp": at}
        copy.repeat_where("check", first_check, **checked)
        copy.repeat_where(
            "op",
            lambda row: row["from_check"] and row["offsets"] == [asked.offset],
            state="UNKNOWN",
            offsets=[pending.offset],
            transaction_ids=[pending.half.transaction_id],
            source_offset=lambda offset: offset + 100_000 + number,  # noqa: B023
            stored_at=at + timedelta(seconds=5),
        )
    copy.save()
    report = audit(spark, story, copy.folder, topics=False)
    (found,) = [one for one in report.findings if one.invariant is Invariant.CHECK_MAX]
    assert [(one.half, one.detail) for one in found.examples] == [
        (pending.half_id, f"asked on after more than {SHORT['transaction_check_max']} answers")
    ]


def test_what_is_to_land_was_deleted_or_was_rebuilt_is_no_violation(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    copy = Copy(story, tmp_path / "tables")
    first, (half, op) = story.committed[0], (story.committed[-1], story.committed[-8])
    before = datetime.fromtimestamp(first.stored_at_ms / 1_000, timezone.utc)
    for table in ("half", "op", "check", "discarded"):
        copy.remove_where(table, lambda row: row["source_timestamp"] < before)
    copy.remove("half", half)
    last = copy.last_op(op)
    copy.remove_where("op", lambda row: row["queue"] == op.queue and row["source_offset"] >= last)
    copy.change_where(
        "resolution", lambda row: row["queue"] == 1, query_id="of the rebuilt checkpoint"
    )
    copy.repeat_where("quarantine", lambda row: True, source_offset=lambda at: at + 100_000)
    copy.save()

    report = audit(spark, story, copy.folder, topics=False)
    assert report.holds, "\n".join(report.lines())
    assert report.counts["outcomes_landed_before_half_or_op"] == 8
    assert report.counts["outcomes_of_halves_or_ops_kept_no_longer"] == 7


def test_what_can_neither_land_any_more_nor_be_deleted_is_found_by_the_tables_alone(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    copy, like = Copy(story, tmp_path / "tables"), story.rolled_back[0]
    long = timedelta(hours=1)
    stored_at = datetime.fromtimestamp(like.stored_at_ms / 1_000, timezone.utc)
    for offset, at in ((FAR, stored_at - long), (FAR + 1, stored_at + long)):
        place = {"offset": offset, "source_offset": more(100_000)}
        copy.repeat("resolution", like, stored_at=at, source_timestamp=at, **place)
    asked = story.by_name["asked"]  # the first half of its queue
    copy.remove("half", asked)
    copy.change("resolution", asked, stored_at=lambda at: at + long)
    copy.change("check", story.by_name["late"], queue=None)
    first = copy.first_op(0)["source_offset"]
    copy.remove_where("op", lambda row: (row["queue"], row["source_offset"]) == (0, first))
    unended = [story.by_name[name] for name in ("pending", "forgotten", "forgotten_later")]
    ended = [(FAR, -long), (FAR, long), (first, long)]
    for sent, (op_offset, later) in zip(unended, ended, strict=True):
        half = datetime.fromtimestamp(sent.stored_at_ms / 1_000, timezone.utc)
        copy.repeat(
            "resolution",
            like,
            stored_at=half,
            ended_at=stored_at + later,
            source_timestamp=stored_at + later,
            op_offset=op_offset,
            **as_if_of(sent),
        )
    copy.save()
    report = audit(spark, story, copy.folder, topics=False)
    found = {one.invariant: [it.half for it in one.examples] for one in report.findings}
    assert {name: halves for name, halves in found.items() if halves} == {
        Invariant.ONE_OUTCOME: [asked.half_id, f"{like.queue}:{FAR}"],
        Invariant.COPIES: [asked.half_id],
        Invariant.FIRST_END: [unended[0].half_id, unended[2].half_id],
    }
    assert report.counts["outcomes_landed_before_half_or_op"] == 2
    assert report.counts["rows_of_no_place"] > 0


def test_what_is_malformed_by_the_name_of_a_header_is_no_violation(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    """Bytes that are no UTF-8 can't be seen in the table any more."""
    copy, malformed = Copy(story, tmp_path / "tables"), story.by_name["malformed"]
    pending = story.by_name["pending"]
    ids = [pending.half.transaction_id]
    group = {"key": "PGROUP", "value": malformed.half.group.encode()}
    odd = {"key": "\ufffd", "value": b""}
    copy.change(
        "half",
        malformed,
        group=malformed.half.group,
        headers=lambda headers: [*headers, group, odd],
    )
    op = {"state": "COMMIT_MESSAGE", "group": "orders", "offsets": [pending.offset]}
    copy.change_where(
        "op",
        lambda row: row["value"] == b"{}",
        headers=lambda headers: [*headers, odd],
        value=json.dumps({**op, "transaction_ids": ids}).encode(),
        transaction_ids=ids,
        **op,
    )
    copy.save()
    report = audit(spark, story, copy.folder, topics=False)
    assert report.holds, "\n".join(report.lines())


def test_a_half_of_a_group_under_the_prefix_is_malformed(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    copy, malformed = Copy(story, tmp_path / "tables"), story.by_name["malformed"]
    name = story.world.names.resolver
    group = {"key": "PGROUP", "value": name.encode()}
    copy.change("half", malformed, group=name, headers=lambda headers: [group, *headers])
    copy.change_where("quarantine", is_malformed_half, headers=lambda headers: [group, *headers])
    copy.save()
    report = audit(spark, story, copy.folder, topics=False)
    assert report.holds, "\n".join(report.lines())


def missed(damages: list[Damage], report: dict[str, Any]) -> list[str]:
    """Return what is not reported under its invariant with its transaction."""
    found = violations(report)
    return [
        damage.name
        for damage in damages
        if (damage.transaction_id, damage.half) not in found[damage.invariant]
    ]


def violations(report: dict[str, Any]) -> dict[Invariant, list[tuple[str | None, str | None]]]:
    assert not report["holds"]
    return {
        Invariant(name): [(one["transaction_id"], one["half"]) for one in found["examples"]]
        for name, found in report["invariants"].items()
    }


def test_where_no_tables_are_it_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"there is no table resolution in .*--tables"):
        audited(spark, Settings(), str(tmp_path), False, ALL)


@pytest.mark.parametrize(
    ("folder", "why"), [("nowhere://a/b", "No FileSystem for scheme"), ("file://a/b", "Wrong FS")]
)
def test_tables_out_of_reach_are_not_said_to_be_damaged(
    spark: SparkSession, folder: str, why: str
) -> None:
    with pytest.raises(AuditError, match=why) as refused:
        audited(spark, Settings(), folder, False, ALL)
    assert "remove" not in str(refused.value)
