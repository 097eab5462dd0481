"""Checks and discards of what is overdue."""

from __future__ import annotations

import numpy as np

from ..protocol import DiscardReason, Outcome, Source
from .decisions import CheckSent, Ended
from .ends import Array
from .pending import Pending
from .queue import Queue
from .settings import StepSettings
from .settled import DISCARD, Settled

#: How many rows of overdue ranges one step looks at, those with the least deadlines first.
WINDOW = 65_536
#: More doublings than any interval needs to reach any backoff.
_MAX_DOUBLINGS = 40


def overdue_segments(queue: Queue, watermark: int | None) -> list[int]:
    """Return the ranges that hold the rows to look at."""
    if watermark is None:
        return []
    segments, rows = [], 0
    for segment, entry in sorted(queue.pending.items(), key=lambda item: item[1].least_deadline):
        if entry.least_deadline >= watermark or rows >= WINDOW:
            break
        segments.append(segment)
        rows += entry.halves
    return segments


def check(
    pending: Pending, settled: Settled, queue: Queue, settings: StepSettings
) -> tuple[list[CheckSent], list[Ended]]:
    """Ask about the overdue halves, or give up those about which enough was asked."""
    due = _due(pending, queue, settings)
    rows = pending.rows[due]
    counted = rows["checks"] if settings.count_unanswered_checks else rows["answered"]
    asked_once = rows["checks"] > 0
    used_up = asked_once & (counted >= settings.transaction_check_max)
    expired = asked_once & (queue.now - rows["stored_at"] > settings.file_reserved_ms)
    given_up = used_up | expired
    discards = _discard(pending, due[given_up], used_up[given_up], queue)
    settled.settle(rows["offset"][given_up], np.full(len(discards), DISCARD, np.uint8))
    pending.end(due[given_up])
    return _ask(pending, due[~given_up], queue, settings), discards


def _due(pending: Pending, queue: Queue, settings: StepSettings) -> Array:
    """Return overdue rows by deadline: within the limits, which groups share fairly."""
    if queue.watermark is None:
        return np.zeros(0, np.int64)
    due = np.flatnonzero(pending.alive & (pending.rows["deadline"] < queue.watermark))
    due = due[np.argsort(pending.rows["deadline"][due], kind="stable")]
    sizes = pending.stored_bytes(due)
    if len(due) <= settings.max_checks and sizes.sum() <= settings.max_output_bytes:
        return due
    fair = np.argsort(_rank_within(pending.groups[due]), kind="stable")[: settings.max_checks]
    total = np.cumsum(sizes[fair])
    count = max(1, int(np.searchsorted(total, settings.max_output_bytes, side="right")))
    return due[np.sort(fair[:count])]


def _rank_within(groups: Array) -> Array:
    """Return each row's rank among the rows of its group."""
    _, group, sizes = np.unique(groups.astype(str), return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - starts
    return rank


def _discard(pending: Pending, due: Array, used_up: Array, queue: Queue) -> list[Ended]:
    rows = pending.rows[due]
    columns = (rows["checks"].tolist(), rows["answered"].tolist(), used_up.tolist())
    return [
        Ended(
            at=at,
            outcome=Outcome.DISCARD,
            source=Source.LIMIT,
            op_offset=None,
            ended_at_ms=None,
            checks=checks,
            answered=answered,
            decided_at_ms=queue.now,
            reason=DiscardReason.CHECK_MAX if by_checks else DiscardReason.EXPIRED,
        )
        for at, checks, answered, by_checks in zip(pending.halves(due), *columns, strict=True)
    ]


def _ask(pending: Pending, due: Array, queue: Queue, settings: StepSettings) -> list[CheckSent]:
    rows = pending.rows
    rows["streak"][due] += rows["asked"][due]
    rows["checks"][due] += 1
    rows["asked"][due] = True
    start = max(queue.watermark or 0, queue.now)
    rows["deadline"][due] = start + _wait(rows["streak"][due], settings)
    pending.changed[due] = True
    checks = rows["checks"][due].tolist()
    return [CheckSent(at, n) for at, n in zip(pending.halves(due), checks, strict=True)]


def _wait(streak: Array, settings: StepSettings) -> Array:
    """Return how long to wait for an answer; longer each time in a row that none came."""
    interval = settings.transaction_check_interval_ms
    if settings.count_unanswered_checks:
        return np.full(len(streak), interval)
    longest = max(interval, settings.check_backoff_max_ms)
    doublings = np.minimum(streak, _MAX_DOUBLINGS).astype(np.float64)
    return np.minimum(interval * 2.0**doublings, longest).astype(np.int64)
