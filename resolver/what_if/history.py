"""What happened, as the ledger has it: halves, ends, and how checks were answered."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..protocol import Element, Half, HalfId, Op, TransactionStatus
from ..views import Filter, Ledger
from ..views.filter import milliseconds

#: Times are in ms. No body is read.
_HALVES = """
    SELECT h.queue, h.offset, h.transaction_id, h.group, h.topic, h.real_qid, h.immunity_seconds,
           h.fast_id, unix_millis(h.stored_at) AS stored_ms
    FROM half h
    LEFT ANTI JOIN (
      SELECT q.queue, q.refused_offset AS offset FROM quarantine q
      LEFT ANTI JOIN resolution r ON q.queue = r.queue AND q.refused_offset = r.offset
      WHERE q.reason IN ('MALFORMED_HALF', 'NO_PERMISSION') AND q.element IS NULL
    ) x ON h.queue = x.queue AND h.offset = x.offset
    WHERE h.group IS NOT NULL AND h.transaction_id IS NOT NULL AND h.topic IS NOT NULL {range}
    ORDER BY h.queue, h.offset
"""
_OPS = """
    SELECT o.queue, o.source_offset AS offset, o.state, o.group, o.offsets, o.transaction_ids,
           coalesce(o.from_check, false) AS from_check, o.actor,
           coalesce(o.delivered, false) AS delivered, coalesce(o.fast, true) AS fast,
           unix_millis(o.stored_at) AS stored_ms
    FROM op o
    LEFT ANTI JOIN (
      SELECT q.queue, q.refused_offset AS offset FROM quarantine q
      WHERE q.reason = 'MALFORMED_OP' AND q.element IS NULL
    ) x ON o.queue = x.queue AND o.source_offset = x.offset
    WHERE o.tag = 'd' AND o.state IS NOT NULL AND o.group IS NOT NULL AND o.offsets IS NOT NULL
      AND o.transaction_ids IS NOT NULL
    ORDER BY o.queue, o.source_offset
"""
_REVOKED = """
    SELECT o.queue, o.source_offset AS offset, o.fast_id, unix_millis(o.stored_at) AS stored_ms
    FROM op o WHERE o.fast_id IS NOT NULL ORDER BY o.queue, o.source_offset
"""
_CHECKS = """
    SELECT c.queue, c.offset, c.checks, unix_millis(c.source_timestamp) AS sent_ms FROM `check` c
    WHERE c.queue IS NOT NULL AND c.offset IS NOT NULL AND c.checks IS NOT NULL
    ORDER BY c.queue, c.offset, sent_ms, c.checks
"""
_OUTCOMES = """
    SELECT r.queue, r.offset, r.outcome, r.source, r.checks FROM resolution r
    UNION ALL
    SELECT p.queue, p.offset, p.outcome, p.source, NULL AS checks FROM parked p
    LEFT ANTI JOIN resolution r ON p.queue = r.queue AND p.offset = r.offset
    WHERE p.queue IS NOT NULL
"""
_LAST = """
    SELECT max(t.at) AS at FROM (
      SELECT max(unix_millis(h.stored_at)) AS at FROM half h
      UNION ALL SELECT max(unix_millis(o.stored_at)) AS at FROM op o
      UNION ALL SELECT max(unix_millis(r.decided_at)) AS at FROM resolution r
      UNION ALL SELECT max(unix_millis(c.source_timestamp)) AS at FROM `check` c
    ) t
"""


class LedgerHalf(NamedTuple):
    """A half, without its body, and when it was stored."""

    offset: int
    stored_ms: int
    half: Half


class LedgerOp(NamedTuple):
    """An op that answers no known check, about halves of the history alone; or an announcement."""

    offset: int
    stored_ms: int
    op: Op


class Revoked(NamedTuple):
    """A fast id that was revoked: from then on no producer can deliver its halves."""

    offset: int
    stored_ms: int
    fast_id: str


class CheckId(NamedTuple):
    """A check within a queue: the offset of its half, and its number among the half's checks."""

    half_offset: int
    number: int


class Answer(NamedTuple):
    """An answer to a check: how long after the check it was stored, and what it says."""

    after_ms: int
    op: Op


class Recorded(NamedTuple):
    """What became of a transaction."""

    outcome: str
    source: str | None
    checks: int | None


@dataclass
class QueueHistory:
    """What happened in a queue.

    `sent` are the checks that were sent, and `answers` are theirs.
    """

    halves: list[LedgerHalf] = field(default_factory=list)
    ops: list[LedgerOp] = field(default_factory=list)
    revoked: list[Revoked] = field(default_factory=list)
    sent: set[CheckId] = field(default_factory=set)
    answers: dict[CheckId, list[Answer]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class History:
    """What happened to some transactions until `end_ms`, the last time that the ledger has."""

    queues: Mapping[int, QueueHistory]
    recorded: Mapping[HalfId, Recorded]
    end_ms: int

    def halves(self) -> Iterator[tuple[HalfId, Half]]:
        """Yield all halves, in order."""
        for queue, history in sorted(self.queues.items()):
            for stored in history.halves:
                yield HalfId(queue, stored.offset), stored.half


def read_history(ledger: Ledger, chosen: Filter) -> History:
    """Read what happened to the transactions of a group that were stored in a range of time."""
    queues: dict[int, QueueHistory] = defaultdict(QueueHistory)
    for row in _rows(ledger, _HALVES.format(range=_range(chosen))):
        half = Half(
            row["transaction_id"], row["group"], row["topic"], row["stored_ms"], None, None, [],
            row["real_qid"], row["immunity_seconds"], row["fast_id"],
        )  # fmt: skip
        queues[row["queue"]].halves.append(LedgerHalf(row["offset"], row["stored_ms"], half))
    offsets = {
        queue: {stored.offset for stored in history.halves} for queue, history in queues.items()
    }
    checks = _checks(ledger, offsets)
    for half_id, (_, numbers) in checks.items():
        queues[half_id.queue].sent.update(CheckId(half_id.offset, number) for number in numbers)
    for row in _rows(ledger, _OPS):
        if row["queue"] in queues:
            _take(row, queues[row["queue"]], offsets[row["queue"]], checks)
    for row in _rows(ledger, _REVOKED):
        if row["queue"] in queues:
            revoked = Revoked(row["offset"], row["stored_ms"], row["fast_id"])
            queues[row["queue"]].revoked.append(revoked)
    recorded = {
        HalfId(row["queue"], row["offset"]): Recorded(row["outcome"], row["source"], row["checks"])
        for row in _rows(ledger, _OUTCOMES)
        if row["offset"] in offsets.get(row["queue"], ())
    }
    [last] = _rows(ledger, _LAST)
    return History(queues, recorded, last["at"] or 0)


#: Times at which checks were sent, and their numbers, by half.
_Checks = Mapping[HalfId, tuple[list[int], list[int]]]


def _checks(ledger: Ledger, offsets: Mapping[int, Collection[int]]) -> _Checks:
    checks: dict[HalfId, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row in _rows(ledger, _CHECKS):
        if row["offset"] in offsets.get(row["queue"], ()):
            times, numbers = checks[HalfId(row["queue"], row["offset"])]
            times.append(row["sent_ms"])
            numbers.append(row["checks"])
    return checks


def _take(
    row: Mapping[str, Any], queue: QueueHistory, offsets: Collection[int], checks: _Checks
) -> None:
    """Split an op into answers, each to its half's last check before it, and an op of the rest."""
    elements: list[Element] = []
    op = Op(
        TransactionStatus(row["state"]), row["group"], (), row["from_check"], None, row["actor"],
        delivered=row["delivered"], gives_up_fast=not row["fast"],
    )  # fmt: skip
    for offset, id_ in zip(row["offsets"], row["transaction_ids"], strict=False):
        if offset not in offsets or id_ is None:
            continue
        element = Element(len(elements), offset, id_)
        times, numbers = checks.get(HalfId(row["queue"], offset), ([], []))
        sent_before = bisect_right(times, row["stored_ms"])
        if row["from_check"] and sent_before:
            answer = Answer(
                row["stored_ms"] - times[sent_before - 1],
                op.about(element._replace(position=0)),
            )
            queue.answers[CheckId(offset, numbers[sent_before - 1])].append(answer)
        else:
            elements.append(element)
    if elements or not row["offsets"]:  # without any it announces an agent
        queue.ops.append(LedgerOp(row["offset"], row["stored_ms"], op.about(*elements)))


def _range(chosen: Filter) -> str:
    conditions = []
    if chosen.group is not None:
        group = chosen.group.replace("'", "''")
        conditions.append(f"h.group = '{group}'")
    for sign, time in ((">=", chosen.since), ("<", chosen.until)):
        if time is not None:
            conditions.append(f"unix_millis(h.stored_at) {sign} {milliseconds(time)}")
    return "".join(f"AND {condition} " for condition in conditions)


def _rows(ledger: Ledger, sql: str) -> Iterator[dict[str, Any]]:
    for batch in ledger.sql(sql).to_batches():
        yield from batch.to_pylist()
