"""Checks and discards of overdue halves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ...protocol import DiscardReason, Outcome, Source
from .decisions import CheckCounts, CheckEvent, CheckSent, Ended
from .fast.holding import hold
from .fast.ids import FastIds
from .op_elements import Array
from .pending import Pending
from .settings import StepSettings
from .state.head import Head
from .state.settled import DISCARD, Settled

#: Rows that one step looks at, of overdue segments; those with the least deadlines come first.
WINDOW = 65_536
#: Limit of doublings: more than any interval needs to reach any backoff.
_MAX_DOUBLINGS = 40


def overdue_segments(head: Head, watermark: int | None) -> list[int]:
    """Return the segments that hold the rows to look at."""
    if watermark is None:
        return []
    segments, rows = [], 0
    for segment, entry in sorted(head.pending.items(), key=lambda item: item[1].least_deadline):
        if entry.least_deadline >= watermark or rows >= WINDOW:
            break
        segments.append(segment)
        rows += entry.halves
    return segments


class Checked(NamedTuple):
    """The overdue halves of a batch: asked about, or given up."""

    checks: list[CheckSent]
    discards: list[Ended]
    counts: CheckCounts
    has_unasked: bool


def check_overdue(
    pending: Pending,
    settled: Settled,
    fast_ids: FastIds,
    head: Head,
    settings: StepSettings,
    groups_back: Collection[str] = (),
) -> Checked:
    """Check the overdue halves; discard those that are too old or were checked often enough.

    Nobody is asked about a half that its producer may commit itself. The halves of `groups_back`
    that wait for an answer have an extra check, as far as the limits allow. `has_unasked` says
    whether the limits left out some of these.
    """
    silent = hold(pending, fast_ids, head, settings)
    due = _due(pending, head, settings)
    extra, has_unasked = _waiting(pending, silent, set(groups_back), due, head, settings)
    rows = pending.rows[due]
    asked_once = rows["checks"] > 0
    by_checks = asked_once & used_up(rows, settings)
    given_up = by_checks | (asked_once & expired(rows, head, settings))
    counts = _counts(pending, due, given_up) + _counts(pending, extra, np.zeros(len(extra), bool))
    discards = _discard(pending, due[given_up], by_checks[given_up], head)
    settled.settle(rows["offset"][given_up], np.full(len(discards), DISCARD, np.uint8))
    pending.end(due[given_up])
    checks = _ask(pending, due[~given_up], head, settings)
    checks += _ask_extra(pending, extra, head, settings)
    return Checked(checks, discards, counts, has_unasked)


def used_up(rows: Array, settings: StepSettings) -> Array:
    """Whether the checks of rows that were asked about have reached the limit."""
    counted = rows["checks"] if settings.count_unanswered_checks else rows["answered"]
    return np.asarray(counted >= settings.transaction_check_max)


def expired(rows: Array, head: Head, settings: StepSettings) -> Array:
    """Whether rows are so old that they are given up, once they were asked about."""
    return np.asarray(head.now - rows["stored_at"] > settings.file_reserved_ms)


def _waiting(
    pending: Pending,
    silent: Array,
    groups: set[str],
    due: Array,
    head: Head,
    settings: StepSettings,
) -> tuple[Array, bool]:
    """Return the rows that have an extra check now, and whether the limits left out others.

    They are halves of `groups` that wait for an answer. If unanswered checks count, there are none:
    each extra check would count too.
    """
    rows = pending.rows
    if not groups or settings.count_unanswered_checks or head.watermark is None:
        return np.zeros(0, np.int64), False
    is_back = np.array([group in groups for group in pending.groups.tolist()], np.bool_)
    waits = pending.alive & ~silent & is_back & rows["asked"] & (rows["streak"] >= 0)
    waits &= rows["deadline"] >= head.watermark
    waits &= ~used_up(rows, settings) & ~expired(rows, head, settings)
    waiting = np.flatnonzero(waits)
    waiting = waiting[np.argsort(rows["deadline"][waiting], kind="stable")]
    room = settings.max_output_bytes - pending.stored_bytes(due).sum()
    fitting = int(np.searchsorted(np.cumsum(pending.stored_bytes(waiting)), room, side="right"))
    if not len(due):
        fitting = max(1, fitting)
    taken = waiting[: min(fitting, settings.max_checks - len(due))]
    return taken, len(taken) < len(waiting)


def _counts(pending: Pending, due: Array, given_up: Array) -> CheckCounts:
    """Count what becomes of due rows, and the checks that nobody answered until now."""
    events = {
        CheckEvent.UNANSWERED: due[pending.rows["asked"][due]],
        CheckEvent.DISCARDED: due[given_up],
        CheckEvent.SENT: due[~given_up],
    }
    counts: CheckCounts = Counter()
    for event, rows in events.items():
        counts.update((group, event) for group in pending.groups[rows].tolist())
    return counts


def _due(pending: Pending, head: Head, settings: StepSettings) -> Array:
    """Return overdue rows by deadline, within the limits; groups share the limits fairly."""
    if head.watermark is None:
        return np.zeros(0, np.int64)
    due = np.flatnonzero(pending.alive & (pending.rows["deadline"] < head.watermark))
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


def _discard(pending: Pending, due: Array, by_checks: Array, head: Head) -> list[Ended]:
    rows, halves = pending.rows[due], pending.halves(due)
    columns = (rows["checks"].tolist(), rows["answered"].tolist(), by_checks.tolist())
    return [
        Ended(
            stored_half=stored_half,
            outcome=Outcome.DISCARD,
            source=Source.LIMIT,
            op_offset=None,
            ended_at_ms=None,
            checks=checks,
            answered=answered,
            decided_at_ms=head.now,
            reason=DiscardReason.CHECK_MAX if is_used_up else DiscardReason.EXPIRED,
        )
        for stored_half, checks, answered, is_used_up in zip(halves, *columns, strict=True)
    ]


def _ask(pending: Pending, due: Array, head: Head, settings: StepSettings) -> list[CheckSent]:
    rows = pending.rows
    rows["streak"][due] = unanswered(rows["streak"][due]) + rows["asked"][due]
    rows["checks"][due] += 1
    rows["asked"][due] = True
    start = max(head.watermark or 0, head.now)
    rows["deadline"][due] = _next_deadlines(start, rows["streak"][due], settings)
    pending.changed[due] = True
    return _checks_sent(pending, due)


def _ask_extra(
    pending: Pending, extra: Array, head: Head, settings: StepSettings
) -> list[CheckSent]:
    """Ask once more, beside the checks that are due by themselves.

    A further extra check comes only after the next check that is due by itself. So a flood of
    announcements brings at most two checks of a half within an interval, and no deadline comes
    earlier.
    """
    rows = pending.rows
    rows["streak"][extra] = ~rows["streak"][extra]
    rows["checks"][extra] += 1
    answer_at = max(head.watermark or 0, head.now) + settings.transaction_check_interval_ms
    rows["deadline"][extra] = np.maximum(rows["deadline"][extra], answer_at)
    pending.changed[extra] = True
    return _checks_sent(pending, extra)


def _checks_sent(pending: Pending, rows: Array) -> list[CheckSent]:
    checks = pending.rows["checks"][rows].tolist()
    return [CheckSent(*sent) for sent in zip(pending.halves(rows), checks, strict=True)]


def unanswered(streak: Array) -> Array:
    """Return how many checks in a row stayed unanswered before the last, which may be an extra."""
    return np.where(streak < 0, ~streak, streak)


def _next_deadlines(start: int, streak: Array, settings: StepSettings) -> Array:
    """Return deadlines in ms: multiples of half the wait, but at least an interval after `start`.

    So the halves of a group that nobody answers for fall due together, in all queues. By
    themselves they would each wake both queries, whose batches cost seconds of CPU.
    """
    wait = _wait(streak, settings)
    half = np.maximum(wait // 2, 1)
    together: Array = (start + wait) // half * half
    return np.maximum(together, start + settings.transaction_check_interval_ms)


def _wait(streak: Array, settings: StepSettings) -> Array:
    """Return the wait for an answer in ms: longer after each unanswered check in a row."""
    interval = settings.transaction_check_interval_ms
    if settings.count_unanswered_checks:
        return np.full(len(streak), interval)
    longest = max(interval, settings.check_backoff_max_ms)
    doublings = np.minimum(streak, _MAX_DOUBLINGS).astype(np.float64)
    return np.minimum(interval * 2.0**doublings, longest).astype(np.int64)
