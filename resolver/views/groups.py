"""The views that sum up: failures by what they have in common, groups, rates and latency."""

from __future__ import annotations

from .view import View

FAILED = View(
    "failed",
    "Each discarded, undeliverable or refused message, op or element",
    """
    SELECT d.reason, d.topic AS place, d.group, d.topic, d.source_timestamp AS at, d.error,
           concat(d.queue, ':', d.offset) AS half
    FROM {discarded} d
    UNION ALL
    SELECT q.reason, q.refused_topic AS place, q.group, q.topic, q.source_timestamp AS at, q.error,
           CASE WHEN q.reason IN ('MALFORMED_HALF', 'NO_PERMISSION')
                THEN concat(q.queue, ':', q.refused_offset)
                WHEN q.offset IS NOT NULL THEN concat(q.queue, ':', q.offset) END AS half
    FROM {quarantine} q
    """,
    {
        "reason": "Why: CHECK_MAX, EXPIRED, UNDELIVERABLE, or a reason of quarantine",
        "place": "The real topic of a message; the topic of a refused record",
        "group": "The producer group; null where it can't be read",
        "topic": "Where a commit is delivered; null for an op",
        "at": "When it was written (UTC)",
        "error": "The same in words",
        "half": "The half id, if any",
    },
    time="at",
    order="v.at, v.half",
)

FAILURES = View(
    "failures",
    "Discarded, undeliverable and refused, by reason and place",
    """
    SELECT concat(f.reason, ' ', coalesce(f.place, '?'), ' ', coalesce(f.group, '?'))
             AS fingerprint,
           f.reason, f.place, f.group, count(*) AS count, min(f.at) AS first_at,
           max(f.at) AS last_at, max(f.half) AS example, max(f.error) AS error
    FROM {failed} f
    GROUP BY f.reason, f.place, f.group
    """,
    {
        "fingerprint": "Reason, place and group: what the failures have in common",
        "reason": "Why: CHECK_MAX, EXPIRED, UNDELIVERABLE, or a reason of quarantine",
        "place": "The real topic of a message; the topic of a refused record",
        "group": "The producer group; null where it can't be read",
        "count": "How many there are",
        "first_at": "When the first was written (UTC)",
        "last_at": "When the last was written (UTC)",
        "example": "The half id of one of them",
        "error": "The words of one of them",
    },
    order="v.count DESC, v.fingerprint",
    chosen=FAILED,
)

GROUPS = View(
    "groups",
    "Producer groups: do they answer?",
    """
    SELECT g.group, sum(g.ended) AS ended, sum(g.pending) AS pending, sum(g.parked) AS parked,
           sum(g.unanswered) AS unanswered, min(g.oldest_pending_at) AS oldest_pending_at,
           max(g.last_answer_at) AS last_answer_at, max(g.last_decided_at) AS last_decided_at
    FROM (
      SELECT p.group, 0 AS ended,
             CASE WHEN p.status = 'PENDING' THEN 1 ELSE 0 END AS pending,
             CASE WHEN p.status = 'PARKED' THEN 1 ELSE 0 END AS parked,
             CASE WHEN p.status = 'PENDING' AND p.checks > 0 AND
                       (p.last_answer_at IS NULL OR p.last_answer_at < p.last_check_at)
                  THEN 1 ELSE 0 END AS unanswered,
             CASE WHEN p.status = 'PENDING' THEN p.stored_at END AS oldest_pending_at,
             NULL AS last_answer_at, NULL AS last_decided_at
      FROM {pending} p
      UNION ALL
      SELECT o.group, 0 AS ended, 0 AS pending, 0 AS parked, 0 AS unanswered,
             NULL AS oldest_pending_at, max(o.stored_at) AS last_answer_at, NULL AS last_decided_at
      FROM {op} o WHERE o.from_check AND cardinality(o.offsets) > 0 GROUP BY o.group
      UNION ALL
      SELECT r.group, count(*) AS ended, 0 AS pending, 0 AS parked, 0 AS unanswered,
             NULL AS oldest_pending_at, NULL AS last_answer_at, max(r.decided_at) AS last_decided_at
      FROM {resolution} r GROUP BY r.group
    ) g
    GROUP BY g.group
    """,
    {
        "group": "The producer group",
        "ended": "Transactions that ended",
        "pending": "Transactions that are pending, parked ones not counted",
        "parked": "Transactions whose messages wait in the lane",
        "unanswered": "Pending transactions whose last check nobody has answered",
        "oldest_pending_at": "When the half of the oldest pending one was stored (UTC)",
        "last_answer_at": "When the group last answered a check (UTC)",
        "last_decided_at": "When a transaction of it was last resolved (UTC)",
    },
    order="v.group NULLS LAST",
)

RATES = View(
    "rates",
    "Transactions that began and ended in each minute, by group and topic",
    """
    SELECT m.minute, m.group, m.topic, sum(m.begun) AS begun, sum(m.committed) AS committed,
           sum(m.fast) AS fast, sum(m.rolled_back) AS rolled_back, sum(m.discarded) AS discarded,
           sum(m.undeliverable) AS undeliverable
    FROM (
      SELECT date_trunc('minute', h.stored_at) AS minute, h.group, h.topic, count(*) AS begun,
             0 AS committed, 0 AS fast, 0 AS rolled_back, 0 AS discarded, 0 AS undeliverable
      FROM {half} h
      WHERE h.group IS NOT NULL
      GROUP BY date_trunc('minute', h.stored_at), h.group, h.topic
      UNION ALL
      SELECT date_trunc('minute', r.decided_at) AS minute, r.group, r.topic, 0 AS begun,
             sum(CASE WHEN r.outcome = 'COMMIT' THEN 1 ELSE 0 END) AS committed,
             sum(CASE WHEN r.delivery = 'FAST' THEN 1 ELSE 0 END) AS fast,
             sum(CASE WHEN r.outcome = 'ROLLBACK' THEN 1 ELSE 0 END) AS rolled_back,
             sum(CASE WHEN r.outcome = 'DISCARD' THEN 1 ELSE 0 END) AS discarded,
             sum(CASE WHEN r.outcome = 'UNDELIVERABLE' THEN 1 ELSE 0 END) AS undeliverable
      FROM {resolution} r
      GROUP BY date_trunc('minute', r.decided_at), r.group, r.topic
    ) m
    GROUP BY m.minute, m.group, m.topic
    """,
    {
        "minute": "Beginning of the minute (UTC)",
        "group": "The producer group; null where it can't be read",
        "topic": "Where a commit is delivered",
        "begun": "Halves that Kafka stored, refused ones too if they name a group",
        "committed": "Transactions resolved as COMMIT",
        "fast": "Those of them whose producer delivered the message itself",
        "rolled_back": "Transactions resolved as ROLLBACK",
        "discarded": "Transactions resolved as DISCARD",
        "undeliverable": "Transactions resolved as UNDELIVERABLE",
    },
    time="minute",
    order="v.minute, v.group NULLS LAST, v.topic NULLS LAST",
)

LATENCY = View(
    "latency",
    "Time from the op to the outcome in each minute, by group and topic",
    """
    SELECT l.minute, l.group, l.topic, count(*) AS ended,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY l.latency_ms) AS p50_ms,
           percentile_cont(0.9) WITHIN GROUP (ORDER BY l.latency_ms) AS p90_ms,
           percentile_cont(0.99) WITHIN GROUP (ORDER BY l.latency_ms) AS p99_ms,
           max(l.latency_ms) AS max_ms
    FROM (
      SELECT date_trunc('minute', r.decided_at) AS minute, r.group, r.topic,
             unix_millis(r.source_timestamp) - unix_millis(r.ended_at) AS latency_ms
      FROM {resolution} r
      WHERE r.ended_at IS NOT NULL AND r.delivery IS NULL
    ) l
    GROUP BY l.minute, l.group, l.topic
    """,
    {
        "minute": "Beginning of the minute in which they were resolved (UTC)",
        "group": "The producer group",
        "topic": "Where a commit is delivered",
        "ended": "Transactions that an op ended; no message that its producer delivered itself",
        "p50_ms": "Median of the time from the stored op to the stored outcome, in ms",
        "p90_ms": "Its 90th percentile",
        "p99_ms": "Its 99th percentile",
        "max_ms": "The longest",
    },
    time="minute",
    order="v.minute, v.group NULLS LAST, v.topic NULLS LAST",
)
