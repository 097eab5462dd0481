"""The views of transactions: all of them, and those that have not ended."""

from __future__ import annotations

from .view import View

_IDENTITY = {
    "queue": "Queue of the half",
    "offset": "Offset of the half; names the transaction with queue",
    "transaction_id": "The transaction's id",
    "group": "The producer group",
    "topic": "Where a commit is delivered",
}

#: Halves that are no transactions. After a rebuild a half may have been taken all the same: it has
#: an outcome then.
REFUSED_HALVES = View(
    "refused_halves",
    "Halves that were refused and are no transactions",
    """
    SELECT q.queue, q.refused_offset AS offset, max(q.group) AS group
    FROM {quarantine} q
    LEFT ANTI JOIN {resolution} r ON q.queue = r.queue AND q.refused_offset = r.offset
    WHERE q.reason IN ('MALFORMED_HALF', 'NO_PERMISSION') AND q.element IS NULL
    GROUP BY q.queue, q.refused_offset
    """,
)

#: Counting by segment of 4096 offsets needs no join of all halves with all outcomes. Only segments
#: with fewer outcomes than halves are looked at one by one. Outcomes may land before their halves:
#: those behind the last half that has landed do not count. Some malformed halves have no group. The
#: small side of a join stands first: DataFusion keeps the first in memory. The audit proves that no
#: half has two outcomes.
OPEN_SEGMENTS = View(
    "open_segments",
    "Segments of half offsets in which a transaction has no outcome",
    """
    SELECT c.queue, c.segment
    FROM (
      SELECT h.queue, h.offset >> 12 AS segment, count(*) AS halves
      FROM {half} h WHERE h.group IS NOT NULL GROUP BY h.queue, h.offset >> 12
      UNION ALL
      SELECT e.queue, e.offset >> 12 AS segment, -count(*) AS halves
      FROM (
        SELECT h.queue, min(h.offset) AS first_half, max(h.offset) AS last_half
        FROM {half} h GROUP BY h.queue
      ) l
      JOIN (
        SELECT r.queue, r.offset FROM {resolution} r
        UNION ALL
        SELECT q.queue, q.offset FROM {refused_halves} q WHERE q.group IS NOT NULL
      ) e ON e.queue = l.queue AND e.offset BETWEEN l.first_half AND l.last_half
      GROUP BY e.queue, e.offset >> 12
    ) c
    GROUP BY c.queue, c.segment
    HAVING sum(c.halves) > 0
    """,
)

OPEN_HALVES = View(
    "open_halves",
    "Halves of transactions that have no outcome",
    """
    SELECT h.queue, h.offset, h.transaction_id, h.group, h.topic, h.born_at, h.stored_at,
           h.immunity_seconds, h.fast_id
    FROM {open_segments} s
    JOIN {half} h ON h.queue = s.queue AND h.offset >> 12 = s.segment
    LEFT ANTI JOIN {resolution} r ON h.queue = r.queue AND h.offset = r.offset
    LEFT ANTI JOIN {refused_halves} q ON h.queue = q.queue AND h.offset = q.offset
    WHERE h.group IS NOT NULL
    """,
)

#: A release lets all messages of its topic go that were parked before an offset. One without a
#: topic lets those of all topics go; with offset 0 it lets none go.
WAITING_IN_LANE = View(
    "waiting_in_lane",
    "Messages that wait in the lane now",
    """
    SELECT p.queue, p.offset, min(p.decided_at) AS parked_at
    FROM {parked} p
    LEFT JOIN (
      SELECT r.released_topic, max(r.released_upto) AS upto
      FROM {parked} r WHERE r.released_upto IS NOT NULL GROUP BY r.released_topic
    ) t ON p.topic = t.released_topic
    CROSS JOIN (
      SELECT max(r.released_upto) AS upto
      FROM {parked} r WHERE r.released_upto IS NOT NULL AND r.released_topic IS NULL
    ) a
    WHERE p.queue IS NOT NULL
      AND p.source_offset >= coalesce(t.upto, 0) AND p.source_offset >= coalesce(a.upto, 0)
    GROUP BY p.queue, p.offset
    """,
)

CHECKS_AND_ANSWERS = View(
    "checks_and_answers",
    "Checks that were sent, and ops that answer them",
    """
    SELECT c.queue, c.offset, c.group, 'check' AS kind, c.source_timestamp AS at, c.checks,
           NULL AS transaction_ids
    FROM {check} c
    UNION ALL
    SELECT o.queue, explode(o.offsets) AS offset, o.group, 'answer' AS kind, o.stored_at AS at,
           0 AS checks, o.transaction_ids
    FROM {op} o
    WHERE o.from_check
    """,
)

#: The wait doubles for each check in a row that nobody answered before the next was sent. So the
#: checks are counted that have as many answers before them as the last check has.
OPEN_CHECKS = View(
    "open_checks",
    "Open halves, with the checks and answers that each has had",
    """
    SELECT n.queue, n.offset, n.transaction_id, n.group, n.topic, n.born_at, n.stored_at,
           n.immunity_seconds, n.fast_id,
           cast(coalesce(max(n.checks), 0) AS int) AS checks,
           max(CASE WHEN n.kind = 'check' THEN n.at END) AS last_check_at,
           max(CASE WHEN n.kind = 'answer' THEN n.at END) AS last_answer_at,
           sum(CASE WHEN n.kind = 'check' AND n.answers = n.answers_then THEN 1 ELSE 0 END)
             AS unanswered
    FROM (
      SELECT e.*, max(CASE WHEN e.kind = 'check' THEN e.answers END)
               OVER (PARTITION BY e.queue, e.offset) AS answers_then
      FROM (
        SELECT h.*, a.kind, a.at, a.checks,
               sum(CASE WHEN a.kind = 'answer' THEN 1 ELSE 0 END)
                 OVER (PARTITION BY h.queue, h.offset ORDER BY a.at, a.kind
                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS answers
        FROM {open_halves} h
        LEFT JOIN {checks_and_answers} a
          ON h.queue = a.queue AND h.offset = a.offset AND h.group = a.group
          AND (a.kind = 'check' OR array_contains(a.transaction_ids, h.transaction_id))
      ) e
    ) n
    GROUP BY n.queue, n.offset, n.transaction_id, n.group, n.topic, n.born_at, n.stored_at,
             n.immunity_seconds, n.fast_id
    """,
)

PENDING = View(
    "pending",
    "Transactions without an outcome",
    """
    SELECT o.queue, o.offset, o.transaction_id, o.group, o.topic,
           CASE WHEN w.queue IS NULL THEN 'PENDING' ELSE 'PARKED' END AS status,
           o.born_at, o.stored_at, o.age_ms, o.checks, o.last_check_at, o.last_answer_at,
           w.parked_at,
           CASE WHEN w.queue IS NULL THEN timestamp_millis(o.next_check_ms) END AS next_check_at,
           o.fast_id
    FROM (
      SELECT c.*, {now_ms} - unix_millis(c.stored_at) AS age_ms,
             CASE WHEN c.checks = 0 THEN unix_millis(c.stored_at) + CASE
                    WHEN c.immunity_seconds > 0
                    THEN least(c.immunity_seconds, {reserved_seconds}) * 1000
                    ELSE {timeout_ms} END
                  ELSE unix_millis(c.last_check_at) + cast(least(
                    {interval_ms} * power(2, least(c.unanswered - 1, 30)), {longest_ms}) AS bigint)
             END AS next_check_ms
      FROM {open_checks} c
    ) o
    LEFT JOIN {waiting_in_lane} w ON o.queue = w.queue AND o.offset = w.offset
    """,
    {
        **_IDENTITY,
        "status": "PENDING, or PARKED: committed, and waiting for its topic",
        "born_at": "When the producer made the half, by the producer's clock (UTC)",
        "stored_at": "When Kafka stored the half (UTC)",
        "age_ms": "Time since then, in ms",
        "checks": "Checks that were sent",
        "last_check_at": "When the last of them was stored (UTC)",
        "last_answer_at": "When the last answer was stored (UTC)",
        "parked_at": "Since when the message waits in the lane (UTC)",
        "next_check_at": "When the next check is due at the latest, by the settings (UTC)",
        "fast_id": "By which its producer may deliver it; no check is sent until it is revoked",
    },
    time="stored_at",
    order="v.stored_at, v.queue, v.offset",
)

TRANSACTIONS = View(
    "transactions",
    "One row for each transaction, ended or pending",
    """
    SELECT r.queue, r.offset, r.transaction_id, r.group, r.topic, r.outcome AS status, r.source,
           r.delivery, r.born_at, r.stored_at, r.ended_at, r.decided_at, r.checks, r.answered,
           CASE WHEN r.delivery IS NULL
                THEN unix_millis(r.source_timestamp) - unix_millis(r.ended_at) END AS latency_ms,
           unix_millis(r.decided_at) - unix_millis(r.stored_at) AS age_ms
    FROM {resolution} r
    WHERE r.queue IS NOT NULL
    UNION ALL
    SELECT p.queue, p.offset, p.transaction_id, p.group, p.topic, p.status, NULL AS source,
           NULL AS delivery, p.born_at, p.stored_at, NULL AS ended_at, NULL AS decided_at, p.checks,
           NULL AS answered, NULL AS latency_ms, p.age_ms
    FROM {pending} p
    """,
    {
        **_IDENTITY,
        "status": "COMMIT, ROLLBACK, DISCARD, UNDELIVERABLE; PENDING or PARKED without an outcome",
        "source": "Who ended it: END, CHECK, OPERATOR, LIMIT, DELIVERY",
        "delivery": "FAST if the producer delivered the message itself",
        "born_at": "When the producer made the half, by the producer's clock (UTC)",
        "stored_at": "When Kafka stored the half (UTC)",
        "ended_at": "When Kafka stored the op that ended it (UTC)",
        "decided_at": "When it was resolved (UTC)",
        "checks": "Checks that were sent",
        "answered": "Checks that were answered; null while it is pending",
        "latency_ms": "Time from the stored op that ended it to the stored outcome, in ms; null if "
        "the message was there before",
        "age_ms": "Time from the half to the outcome, or until now, in ms",
    },
    time="stored_at",
    order="v.stored_at DESC, v.queue, v.offset DESC",
)

BODIES = View(
    "bodies",
    "Key, value and headers of each half",
    """
    SELECT h.queue, h.offset, h.transaction_id, h.group, h.topic, h.key, h.value, h.headers
    FROM {half} h
    """,
    {
        **_IDENTITY,
        "key": "The message's key, untouched",
        "value": "The message's value, untouched",
        "headers": "All headers of the half, in their order",
    },
)
