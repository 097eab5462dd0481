"""The audit of fast commits: it holds for what the rules allow, and finds each damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.audit.report import Invariant, Report
from resolver.protocol import (
    FAST_DELIVERY,
    Element,
    Half,
    Op,
    Outcome,
    QuarantineReason,
    Refused,
    Resolution,
    Source,
    StoredHalf,
    TransactionStatus,
    check_record,
    fence_record,
    revoked_record,
)
from resolver.settings import Settings
from tests.support.tables import time_at

from .by_hand import NAMES, ByHand, Row

SETTINGS = Settings(
    queues=1,
    transaction_timeout_ms=6_000,
    transaction_check_interval_ms=1_000,
    check_backoff_max_ms=1_000,
    broker_clock_skew_ms=2_000,
)
FIRST, SECOND = NAMES.fast_id("orders", "first"), NAMES.fast_id("orders", "second")
COMMIT = TransactionStatus.COMMIT_MESSAGE
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE
UNKNOWN = TransactionStatus.UNKNOWN
START_MS = round(time_at(0).timestamp() * 1_000)
#: Halves by what becomes of them; `slow_1` and others have no fast id.
NAMED = (
    *("fast_1", "fast_2", "withdrawn", "waited", "overtaken", "given_up", "conflict", "asked"),
    *("pending", "slow_1", "fast_3", "waiting"),
)
Tables = dict[str, list[Row]]
Change = Callable[[Tables], None]


class Story(ByHand):
    """One queue: what producers deliver, what they leave to the resolver, and what waits."""

    def __init__(self) -> None:
        super().__init__()
        self.halves: dict[int, StoredHalf] = {}
        self.ops: dict[str, int] = {}
        self._batch = 0

    def half(self, fast_id: str | None, seconds: float = 0, immunity: int | None = None) -> int:
        number = len(self.halves)
        half = Half(
            f"id-{number}", "orders", "orders.placed", START_MS, b"k", b"v", [("a", b"1")],
            immunity_seconds=immunity, fast_id=fast_id,
        )  # fmt: skip
        record = half.to_record(NAMES.half, 0)
        offset = self.store(record, seconds)
        stored_ms = START_MS + round(seconds * 1_000)
        self.halves[offset] = StoredHalf(0, offset, stored_ms, half, record.headers)
        return offset

    def op(self, name: str, seconds: float, state: Any, *halves: int, **fields: Any) -> None:
        elements = tuple(
            Element(place, offset, self.halves[offset].half.transaction_id)
            for place, offset in enumerate(halves)
        )
        op = Op(state, "orders", elements, **fields)
        self.ops[name] = self.store(op.to_record(NAMES.op, 0), seconds)

    def revoke(self, name: str, seconds: float, fast_id: str) -> None:
        self.ops[name] = self.store(revoked_record(NAMES.op, 0, fast_id, "secret"), seconds)

    def fence(self, seconds: float) -> None:
        self.store(fence_record(NAMES.op, 0), seconds)

    def check(self, offset: int, seconds: float) -> None:
        record = check_record(self.halves[offset], 1, NAMES)
        self.store(record, seconds)

    def refuse(self, name: str, offset: int, reason: QuarantineReason, seconds: float) -> None:
        source = f"{NAMES.op}:0:{self.ops[name]}"
        element = (Element(0, offset, self.halves[offset].half.transaction_id),)
        value = Op(COMMIT, "orders", element).to_record(NAMES.op, 0).value
        refused = Refused(source, 0, reason, "why", None, value, [])
        self.store(refused.to_record(NAMES, 1 << 20), seconds)

    def end(
        self, offset: int, outcome: Outcome, name: str, ended: float, decided: float, **said: Any
    ) -> None:
        """Store an outcome, in a batch of its own."""
        half, self._batch = self.halves[offset], self._batch + 1
        ended_ms, decided_ms = (START_MS + round(one * 1_000) for one in (ended, decided))
        resolution = Resolution(
            half.half.transaction_id, 0, offset, outcome, Source.END, "orders", "orders.placed",
            self.ops[name], 0, 0, START_MS, half.stored_at_ms, ended_ms, decided_ms, self._batch,
            "query",
        )  # fmt: skip
        record = resolution._replace(**said).to_record(NAMES.resolution)
        self.store(record, decided + 0.1)


def told() -> Story:
    """Tell a story in which all goes by the rules."""
    story = Story()
    for name in NAMED:
        slow = name.startswith("slow")
        first = FIRST if NAMED.index(name) < 9 else SECOND
        immunity = 3_600 if name == "pending" else None
        story.half(None if slow else first, immunity=immunity)
    _happen(story, {name: offset for offset, name in enumerate(NAMED)})
    # Later: so all that came before was decided, and nothing due was passed over.
    for number in range(30):
        seconds = 40.0 + number
        later = story.half(None, seconds)
        story.op(f"later_{number}", seconds + 0.2, COMMIT, later)
        story.end(later, Outcome.COMMIT, f"later_{number}", seconds + 0.2, seconds + 0.4)
    return story


def _happen(story: Story, of: dict[str, int]) -> None:
    fast: dict[str, Any] = {"delivery": FAST_DELIVERY}
    story.fence(0)
    story.op("fast", 1, COMMIT, of["fast_1"], of["fast_2"], delivered=True)
    story.end(of["fast_1"], Outcome.COMMIT, "fast", 1, 1.1, **fast)
    story.end(of["fast_2"], Outcome.COMMIT, "fast", 1, 1.1, **fast)
    story.op("withdraw", 1.2, ROLLBACK, of["withdrawn"])
    story.end(of["withdrawn"], Outcome.ROLLBACK, "withdraw", 1.2, 1.3)
    story.op("wait", 2, COMMIT, of["waited"])
    story.op("settle", 2.2, ROLLBACK, of["overtaken"], actor="ann")
    story.op("overtake", 2.5, COMMIT, of["overtaken"], delivered=True)
    story.refuse("settle", of["overtaken"], QuarantineReason.CONFLICTING_END, 2.6)
    story.end(of["overtaken"], Outcome.COMMIT, "overtake", 2.5, 2.6, **fast)
    story.op("give_up", 3, UNKNOWN, of["given_up"], gives_up_fast=True)
    story.op("commit", 3.5, COMMIT, of["given_up"])
    story.end(of["given_up"], Outcome.COMMIT, "commit", 3.5, 3.6)
    story.op("kept", 3.6, COMMIT, of["conflict"])
    story.op("other", 3.7, ROLLBACK, of["conflict"])
    story.refuse("other", of["conflict"], QuarantineReason.CONFLICTING_END, 3.8)
    story.op("give_up_too", 3.8, UNKNOWN, of["conflict"], gives_up_fast=True)
    story.end(of["conflict"], Outcome.COMMIT, "kept", 3.6, 3.9)
    story.fence(7)
    story.revoke("revoked", 7.2, FIRST)
    story.end(of["waited"], Outcome.COMMIT, "wait", 2, 7.3)
    story.check(of["asked"], 7.5)
    story.op("answer", 8, COMMIT, of["asked"], from_check=True)
    by_check: dict[str, Any] = {"source": Source.CHECK, "checks": 1, "answered": 1}
    story.end(of["asked"], Outcome.COMMIT, "answer", 8, 8.1, **by_check)
    story.revoke("again", 8.2, FIRST)
    story.op("slow", 9, COMMIT, of["slow_1"])
    story.end(of["slow_1"], Outcome.COMMIT, "slow", 9, 9.1)
    story.op("fast_too", 10, COMMIT, of["fast_3"], delivered=True)
    story.end(of["fast_3"], Outcome.COMMIT, "fast_too", 10, 10.1, **fast)
    story.op("waits_on", 10.2, COMMIT, of["waiting"])


@pytest.fixture(scope="module")
def story(spark: SparkSession) -> Story:
    made = told()
    made.land(spark)
    return made


def go_on(story: Story) -> None:
    """End three more, so that all before them was decided."""
    for number, seconds in enumerate((73.0, 74.0, 75.0)):
        later = story.half(None, seconds)
        story.op(f"last_{number}", seconds, COMMIT, later)
        story.end(later, Outcome.COMMIT, f"last_{number}", seconds, seconds + 0.1)


def audit(spark: SparkSession, story: Story, folder: Path, *changes: Change) -> Report:
    return audited(spark, SETTINGS, story.written(folder, *changes), False, 99)


def violations(report: Report) -> dict[Invariant, dict[str | None, str]]:
    return {
        one.invariant: {example.half: example.detail for example in one.examples}
        for one in report.findings
        if one.violations
    }


def test_it_holds_for_all_that_the_rules_allow(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    report = audit(spark, story, tmp_path)
    assert report.holds, "\n".join(report.lines())
    checked = {one.invariant: one.checked for one in report.findings}
    assert checked[Invariant.FIRST_END] == len(story.halves) - 2
    assert checked[Invariant.REVOKED] == 1
    assert checked[Invariant.NOT_TWICE] == 4
    assert checked[Invariant.QUARANTINE] == 2
    assert report.counts["pending"] == 2, "one that waits, and one that nothing has ended"
    assert report.counts["refused_halves"] == 0


def of(name: str) -> str:
    return f"0:{NAMED.index(name)}"


def outcome(name: str, **values: Any) -> Change:
    """Change the outcome of a half."""
    return _changing("resolution", "offset", NAMED.index(name), values)


def _changing(table: str, column: str, value: int, values: Row) -> Change:
    def change(tables: Tables) -> None:
        [row] = [row for row in tables[table] if row[column] == value]
        row.update(values)

    return change


def without(table: str, where: Callable[[Row], bool]) -> Change:
    def change(tables: Tables) -> None:
        kept = [row for row in tables[table] if not where(row)]
        assert len(kept) < len(tables[table])
        tables[table] = kept

    return change


def is_revocation(row: Row) -> bool:
    return bool(row["tag"] == "revoked")


def test_it_finds_each_damage(spark: SparkSession, story: Story, tmp_path: Path) -> None:
    number, ops = NAMED.index, story.ops

    def others(tables: Tables) -> None:
        [refused] = [one for one in tables["quarantine"] if one["refused_offset"] == ops["settle"]]
        refused |= {"refused_offset": ops["kept"], "offset": number("conflict")}
        tables["check"][0]["source_timestamp"] = time_at(5)

    by_ann = {"outcome": "ROLLBACK", "op_offset": ops["settle"], "source": "OPERATOR"}
    given_up = {"outcome": "DISCARD", "source": "LIMIT", "op_offset": None, "delivery": "FAST"}
    lost = {number("fast_1"), number("waited")}
    report = audit(
        spark, story, tmp_path,
        without("resolution", lambda row: row["offset"] in lost),
        outcome("fast_2", delivery=None),
        outcome("fast_3", outcome="UNDELIVERABLE", source="DELIVERY"),
        outcome("slow_1", delivery="FAST"),
        outcome("withdrawn", **given_up),
        outcome("overtaken", **by_ann, delivery=None),
        others,
    )  # fmt: skip
    by, first = "COMMIT by op 0:{}, said to be delivered by ", "and first came COMMIT_MESSAGE"
    found = violations(report)
    assert found.pop(Invariant.GIVEN_UP).keys() == {of("withdrawn"), of("fast_3")}
    assert found == {
        Invariant.ONE_OUTCOME: {
            of("fast_1"): f"no outcome, though ended by COMMIT_MESSAGE in op 0:{ops['fast']}"
        },
        Invariant.OVERDUE: {
            of("waited"): "overdue and passed over: no outcome, and checks sent: 0"
        },
        Invariant.FIRST_END: {
            of("fast_2"): by.format(ops["fast"]) + "the resolver",
            of("fast_3"): f"UNDELIVERABLE by op 0:{ops['fast_too']}, and its producer delivered it",
            of("slow_1"): by.format(ops["slow"]) + "its producer",
            of("withdrawn"): "DISCARD, and yet delivered by its producer",
            of("overtaken"): f"ROLLBACK by op 0:{ops['settle']}, {first} in op 0:{ops['overtake']}",
        },
        Invariant.QUARANTINE: {
            of("overtaken"): "CONFLICTING_END, not in quarantine: element 0 of op "
            f"0:{ops['settle']}",
            of("withdrawn"): "CONFLICTING_END, not in quarantine: element 0 of op "
            f"0:{ops['withdraw']}",
            of("conflict"): "refused without cause as CONFLICTING_END: element 0 of op "
            f"0:{ops['kept']}",
        },
        Invariant.REVOKED: {of("asked"): f"asked about before its fast id was revoked: {FIRST}"},
    }


def test_an_end_that_waits_counts_once_the_id_is_revoked_and_not_before(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    report = audit(spark, story, tmp_path, without("op", is_revocation))
    early = f"COMMIT by op 0:{story.ops['wait']}, and the fast id was not revoked"
    asked = f"asked about before its fast id was revoked: {FIRST}"
    assert violations(report) == {
        Invariant.FIRST_END: {
            of("waited"): early,
            of("asked"): early.replace(str(story.ops["wait"]), str(story.ops["answer"])),
        },
        Invariant.REVOKED: {of("asked"): asked},
    }


def test_a_revocation_that_is_yet_to_land_is_not_missed(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    last = story.ops["wait"]
    report = audit(
        spark, story, tmp_path,
        without("op", lambda row: row["source_offset"] > last),
        without("resolution", lambda row: row["op_offset"] > story.ops["answer"]),
    )  # fmt: skip
    assert report.holds, "\n".join(report.lines())
    assert report.counts["outcomes_landed_before_half_or_op"] == 5


def test_a_message_that_its_producer_delivers_too_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of a half without a fast id, and of one that was rolled back."""
    story = told()
    slow, withdrawn = NAMED.index("slow_1"), NAMED.index("withdrawn")
    for name, offset, seconds in (("too", slow, 71), ("too_late", withdrawn, 72)):
        story.op(name, seconds, COMMIT, offset, delivered=True)
        story.refuse(name, offset, QuarantineReason.DELIVERED_TWICE, seconds + 0.1)
    go_on(story)
    story.land(spark)
    detail = "delivered by its producer too, in op 0:{}"
    twice = {
        of("slow_1"): detail.format(story.ops["too"]),
        of("withdrawn"): detail.format(story.ops["too_late"]),
    }
    report = audit(spark, story, tmp_path / "refused")
    assert violations(report) == {Invariant.NOT_TWICE: twice}

    unrefused = without("quarantine", lambda row: row["reason"] == "DELIVERED_TWICE")
    report = audit(spark, story, tmp_path / "not_refused", unrefused)
    missing = "DELIVERED_TWICE, not in quarantine: element 0 of op 0:{}"
    assert violations(report) == {
        Invariant.QUARANTINE: {
            of("slow_1"): missing.format(story.ops["too"]),
            of("withdrawn"): missing.format(story.ops["too_late"]),
        }
    }


def test_records_that_contradict_themselves_are_to_be_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = told()
    good = Op(COMMIT, "orders", (Element(0, 9, "id-9"),)).to_record(NAMES.op, 0)
    wrong = {}
    for fields in (
        b'"delivered":true,"from_check":true',
        b'"delivered":true,"actor":"ann"',
        b'"delivered":null',
        b'"delivered":"true"',
        b'"fast":false',
        b'"fast":1',
    ):
        body = (good.value or b"").replace(b'"from_check":false', fields)
        wrong[fields] = story.store(good._replace(value=body), 71)
    marked = revoked_record(NAMES.op, 0, FIRST, "secret")
    wrong[b"TAGS"] = story.store(marked._replace(headers=[*marked.headers, ("a", None)]), 71)
    others = NAMES.fast_id("others", "a")
    half = story.half(others, 71)
    go_on(story)
    story.land(spark)
    report = audit(spark, story, tmp_path)
    (found,) = (one for one in report.findings if one.violations)
    assert found.invariant is Invariant.QUARANTINE
    assert {one.detail for one in found.examples} == {
        "MALFORMED_HALF, not in quarantine",
        *(f"MALFORMED_OP, not in quarantine: op 0:{offset}" for offset in wrong.values()),
    }
    assert [one.half for one in found.examples if one.half] == [f"0:{half}"]
