"""The two questions that need a parameter: the events of one transaction, and what has changed."""

from __future__ import annotations

from .view import View

#: `{queue}`, `{offset}`: the half. An op names it among many, so ops are found by their lists.
TIMELINE = View(
    "timeline",
    "All that befell one transaction",
    """
    SELECT e.at, e.event, e.word, e.detail, e.checks, e.transaction_id, e.group,
           e.source_topic, e.source_partition, e.source_offset, e.op_offset
    FROM (
      SELECT h.stored_at AS at, 1 AS rank, 'half' AS event, 'STORED' AS word, h.topic AS detail,
             NULL AS checks, h.transaction_id, h.group, h.source_topic, h.source_partition,
             h.source_offset, NULL AS op_offset
      FROM {half} h WHERE h.queue = {queue} AND h.offset = {offset}
      UNION ALL
      SELECT o.stored_at, 2, CASE WHEN m.queue IS NOT NULL THEN 'refused'
                                  WHEN o.actor IS NOT NULL THEN 'operator'
                                  WHEN o.from_check THEN 'answer'
                                  WHEN o.delivered THEN 'delivered'
                                  WHEN NOT o.fast AND h.fast_id IS NOT NULL THEN 'revoked'
                                  ELSE 'end' END,
             coalesce(m.reason, o.state), coalesce(m.error, o.actor, o.remark), NULL,
             CASE WHEN array_contains(o.transaction_ids, h.transaction_id)
                  THEN h.transaction_id END,
             o.group, coalesce(m.source_topic, o.source_topic),
             coalesce(m.source_partition, o.source_partition),
             coalesce(m.source_offset, o.source_offset), o.source_offset AS op_offset
      FROM {op} o
      LEFT JOIN {half} h ON h.queue = {queue} AND h.offset = {offset} AND o.queue = h.queue
      LEFT JOIN (
        SELECT q.* FROM {quarantine} q WHERE q.queue = {queue} AND q.reason = 'MALFORMED_OP'
               AND q.element IS NULL
      ) m ON o.queue = m.queue AND o.source_offset = m.refused_offset
      WHERE o.queue = {queue} AND array_contains(o.offsets, {offset})
      UNION ALL
      SELECT min(o.stored_at), 2, 'revoked', 'REVOKED', h.fast_id, NULL, h.transaction_id, h.group,
             min(o.source_topic), min(o.source_partition), min(o.source_offset),
             min(o.source_offset) AS op_offset
      FROM {half} h
      JOIN {op} o ON o.queue = h.queue AND o.fast_id = h.fast_id
      WHERE h.queue = {queue} AND h.offset = {offset}
      GROUP BY h.fast_id, h.transaction_id, h.group
      UNION ALL
      SELECT c.source_timestamp, 3, 'check', 'ASKED', c.group AS detail, c.checks,
             c.transaction_id, c.group, c.source_topic, c.source_partition, c.source_offset,
             NULL AS op_offset
      FROM {check} c WHERE c.queue = {queue} AND c.offset = {offset}
      UNION ALL
      SELECT q.source_timestamp, 4, 'refused', q.reason, q.error, NULL, q.transaction_id, q.group,
             q.source_topic, q.source_partition, q.source_offset,
             CASE WHEN q.offset IS NOT NULL THEN q.refused_offset END
      FROM {quarantine} q
      WHERE q.queue = {queue} AND (q.offset = {offset} OR (q.refused_offset = {offset}
            AND q.element IS NULL AND q.reason IN ('MALFORMED_HALF', 'NO_PERMISSION')))
      UNION ALL
      SELECT p.decided_at, 5, 'parked', p.outcome, p.topic, NULL, p.transaction_id, p.group,
             p.source_topic, p.source_partition, p.source_offset, NULL AS op_offset
      FROM {parked} p WHERE p.queue = {queue} AND p.offset = {offset}
      UNION ALL
      SELECT d.source_timestamp, 6, 'discarded', d.reason, d.error, d.checks, d.transaction_id,
             d.group, d.source_topic, d.source_partition, d.source_offset, NULL AS op_offset
      FROM {discarded} d WHERE d.queue = {queue} AND d.offset = {offset}
      UNION ALL
      SELECT r.decided_at, 7, 'outcome', r.outcome, r.source, r.checks, r.transaction_id, r.group,
             r.source_topic, r.source_partition, r.source_offset, r.op_offset
      FROM {resolution} r WHERE r.queue = {queue} AND r.offset = {offset}
    ) e
    ORDER BY e.at, e.rank, e.source_offset
    """,
    {
        "at": "When it was stored, or decided (UTC)",
        "event": "half, end, delivered, answer, operator, revoked, check, refused, parked, "
        "discarded or outcome",
        "word": "State of an op, reason of a refusal or discard, or the outcome",
        "detail": "Real topic, operator, remark, fast id, error, or who ended it",
        "checks": "Number of the check, or checks sent so far",
        "transaction_id": "The transaction's id; null in an op that has another",
        "group": "The group that the record names",
        "source_topic": "Topic of the record that proves it",
        "source_partition": "Its partition",
        "source_offset": "Its offset there",
        "op_offset": "Offset of the op: its own, the refused one, or the one that ended it",
    },
)

#: `{then_…}` are the tables as they were. Land adds records in the order of their offsets: new
#: records are behind the greatest offset of that time.
DIFF = View(
    "diff",
    "Transactions whose status is not as it was",
    """
    SELECT t.queue, t.offset, t.transaction_id, t.group, t.topic, b.status AS before,
           t.status AS after, t.at
    FROM (
      SELECT r.queue, r.offset, r.transaction_id, r.group, r.topic, r.outcome AS status,
             r.decided_at AS at
      FROM {resolution} r
      LEFT JOIN (
        SELECT o.source_partition, max(o.source_offset) AS last_outcome
        FROM {then_resolution} o GROUP BY o.source_partition
      ) o ON r.source_partition = o.source_partition
      WHERE r.queue IS NOT NULL AND r.source_offset > coalesce(o.last_outcome, -1)
      UNION ALL
      SELECT p.queue, p.offset, p.transaction_id, p.group, p.topic, p.status,
             coalesce(p.parked_at, p.stored_at) AS at
      FROM {pending} p
    ) t
    LEFT JOIN {then_pending} b ON t.queue = b.queue AND t.offset = b.offset
    WHERE b.status IS NULL OR b.status <> t.status
    """,
    {
        "queue": "Queue of the half",
        "offset": "Offset of the half; names the transaction with queue",
        "transaction_id": "The transaction's id",
        "group": "The producer group",
        "topic": "Where a commit is delivered",
        "before": "PENDING or PARKED, or null if its half had not landed",
        "after": "Its status now",
        "at": "When it got this status (UTC)",
    },
    time="at",
    order="v.at, v.queue, v.offset",
)
