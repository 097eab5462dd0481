"""Figures of the ledger: counted in the tables each time, so that no restart makes them drift.

They are those of `txresolver status`, `groups` and `failures`: all come from the same views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..protocol import QuarantineReason, TransactionStatus
from ..settings import Settings
from ..views import Ledger
from .audits import last_audit
from .metrics import Buckets, Value

#: Bounds in seconds. From a half to its outcome it takes as long as a local transaction, or days;
#: from an op to the visible message a batch or two.
FINISH_BOUNDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3_600, 43_200, 86_400)
COMMIT_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 60)
#: Most groups, or pairs of group and topic, that are counted each by itself: halves may name any.
#: These are the first ones, which stay the same. All others are counted together.
_MOST = 100
_OTHERS = "(others)"
_OPEN = ("group", "topic")

_OUTCOMES = {
    "COMMIT": "txresolver_commit_messages_total",
    "ROLLBACK": "txresolver_rollback_messages_total",
    "DISCARD": "txresolver_discard_messages_total",
    "UNDELIVERABLE": "txresolver_undeliverable_messages_total",
}
_REASONS = tuple(reason.value for reason in QuarantineReason)
#: States of the ops by which operators end transactions.
_ACTS = (TransactionStatus.COMMIT_MESSAGE.value, TransactionStatus.ROLLBACK_MESSAGE.value)
_ENDED = """
    SELECT r.outcome, r.group, r.topic, count(*) AS n, min(r.source_timestamp) AS first_at
    FROM resolution r GROUP BY r.outcome, r.group, r.topic ORDER BY first_at, r.group, r.topic
"""
_PENDING = """
    SELECT p.group, p.status, count(*) AS n, min(p.stored_at) AS oldest_at,
           sum(CASE WHEN p.status = 'PENDING' AND p.checks > 0 AND
                    (p.last_answer_at IS NULL OR p.last_answer_at < p.last_check_at)
               THEN 1 ELSE 0 END) AS unanswered
    FROM pending p GROUP BY p.group, p.status ORDER BY oldest_at, p.group
"""
_SENT = """
    SELECT c.group, count(*) AS n, min(c.source_timestamp) AS first_at
    FROM `check` c GROUP BY c.group ORDER BY first_at, c.group
"""
_ANSWERED = """
    SELECT o.group, o.state, count(*) AS n, min(o.stored_at) AS first_at
    FROM op o WHERE o.from_check AND cardinality(o.offsets) > 0
    GROUP BY o.group, o.state ORDER BY first_at, o.group
"""
_QUARANTINED = "SELECT q.reason, count(*) AS n FROM quarantine q GROUP BY q.reason"
_BY_HAND = "SELECT o.state, count(*) AS n FROM op o WHERE o.actor IS NOT NULL GROUP BY o.state"
_LATENCY = """
    SELECT l.outcome, count(*) AS n, sum(l.ms) AS ms, {buckets}
    FROM (SELECT r.outcome, unix_millis(r.source_timestamp) - unix_millis(r.{since}) AS ms
          FROM resolution r WHERE {which}) l
    GROUP BY l.outcome
"""
#: Outcomes whose time is measured. A message that its producer delivered was visible before.
_ALL = "r.stored_at IS NOT NULL"
_SLOW = "r.ended_at IS NOT NULL AND r.delivery IS NULL"


def ledger_values(settings: Settings, tables: str) -> Iterator[Value]:
    """Yield the figures of the tables as they are now."""
    ledger = Ledger(tables=tables, settings=settings)

    def rows(sql: str) -> list[dict[str, Any]]:
        as_dicts: list[dict[str, Any]] = ledger.sql(sql).to_pylist()
        return as_dicts

    yield from _ended(rows(_ENDED))
    yield from _pending(rows(_PENDING))
    yield from _counted("txresolver_checks_sent_total", rows(_SENT), "group")
    yield from _counted("txresolver_checks_answered_total", rows(_ANSWERED), "group", "state")
    yield from _listed("txresolver_quarantined_total", rows(_QUARANTINED), "reason", _REASONS)
    yield from _listed("txresolver_operator_acts_total", rows(_BY_HAND), "state", _ACTS)
    finished = {row["outcome"]: row for row in rows(_latency("stored_at", _ALL, FINISH_BOUNDS))}
    for outcome in _OUTCOMES:
        buckets = _buckets(finished.get(outcome), FINISH_BOUNDS)
        yield Value("txresolver_finish_message_latency_seconds", (outcome,), buckets)
    committed = {row["outcome"]: row for row in rows(_latency("ended_at", _SLOW, COMMIT_BOUNDS))}
    buckets = _buckets(committed.get("COMMIT"), COMMIT_BOUNDS)
    yield Value("txresolver_commit_latency_seconds", (), buckets)
    yield from _audit(tables)


def _ended(rows: list[dict[str, Any]]) -> Iterator[Value]:
    for outcome, name in _OUTCOMES.items():
        of_outcome = [row for row in rows if row["outcome"] == outcome]
        yield from _counted(name, of_outcome, "group", "topic")


def _pending(rows: list[dict[str, Any]]) -> Iterator[Value]:
    yield from _counted("txresolver_pending_messages", rows, "group", "status")
    waiting = [row for row in rows if row["status"] == "PENDING"]
    unanswered = [{**row, "n": row["unanswered"]} for row in waiting]
    yield from _counted("txresolver_unanswered_messages", unanswered, "group")
    for row in waiting[:_MOST]:
        oldest = row["oldest_at"].timestamp()
        yield Value("txresolver_oldest_pending_timestamp_seconds", (str(row["group"]),), oldest)


def _counted(name: str, rows: list[dict[str, Any]], *labels: str) -> Iterator[Value]:
    """Yield the rows' numbers by their labels; rows above the limit count together."""
    sums: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = tuple(str(row[label]) for label in labels)
        if key not in sums and len(sums) >= _MOST:
            key = tuple(_OTHERS if label in _OPEN else key[labels.index(label)] for label in labels)
        sums[key] = sums.get(key, 0) + row["n"]
    return (Value(name, key, count) for key, count in sums.items())


def _listed(
    name: str, rows: list[dict[str, Any]], label: str, known: Iterable[str]
) -> Iterator[Value]:
    """Yield a number for each known word, 0 too.

    Prometheus sees no increase in a series that begins with its first event.
    """
    counts = {row[label]: row["n"] for row in rows}
    return (Value(name, (word,), counts.get(word, 0)) for word in known)


def _latency(since: str, which: str, bounds: tuple[float, ...]) -> str:
    buckets = ", ".join(
        f"sum(CASE WHEN l.ms <= {round(bound * 1_000)} THEN 1 ELSE 0 END) AS b{index}"
        for index, bound in enumerate(bounds)
    )
    return _LATENCY.format(since=since, which=which, buckets=buckets)


def _buckets(row: Mapping[str, Any] | None, bounds: tuple[float, ...]) -> Buckets:
    if row is None:
        return Buckets(dict.fromkeys(map(float, bounds), 0), 0, 0.0)
    counts = {float(bound): row[f"b{index}"] for index, bound in enumerate(bounds)}
    return Buckets(counts, row["n"], row["ms"] / 1_000)


def _audit(tables: str) -> Iterator[Value]:
    audit = last_audit(tables)
    if audit is not None:
        yield Value("txresolver_audit_timestamp_seconds", (), audit.ended_at.timestamp())
        for invariant, violations in audit.violations.items():
            yield Value("txresolver_audit_violations", (invariant,), violations)
