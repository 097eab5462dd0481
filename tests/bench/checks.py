"""Checks: how long after its time each is visible, on idle topics and with a million pending."""

from __future__ import annotations

import time

import numpy as np

from resolver.errors import ResolverError
from resolver.resolve.job import Resolve

from . import progress
from .arriving import latency_figures
from .growth import LIVE_RATE
from .load import GROUP
from .processes import Peak
from .results import Figures
from .sent_log import SentLog
from .setup import Setup, Topics, await_batch, await_delivered, load, watch

_IDLE_TIMEOUT_MS = 3_000
#: Halves a second: few enough that each check is a case of its own.
_IDLE_RATE = 5
#: Checks that fall due each second, of those that are held.
_DUE_RATE = 1_000
#: No second check of a half while first ones are measured: nobody answers.
_INTERVAL_MS = 3_600_000
_MARGIN_SECONDS = 5.0


def idle_checks(setup: Setup, halves: int) -> Figures:
    """Halves without an op, nothing else: how long after its time each check is visible."""
    with setup.topics(transaction_timeout_ms=_IDLE_TIMEOUT_MS) as topics:
        sent_log = SentLog(topics.home / "due", halves)
        with (
            setup.resolving(topics) as job,
            watch(topics, sent_log, topics.names.check(GROUP)) as watcher,
        ):
            await_batch(job)
            options = {"no_ops": True, "sent_log": sent_log.path, "capacity": halves}
            options |= {"rate": _IDLE_RATE, "timeout_ms": _IDLE_TIMEOUT_MS}
            with load(topics, halves, **options) as loading:
                loading.result()
            await_delivered(sent_log, halves, watcher)
        return lateness(sent_log, 1.0, float("inf"))  # all that were stored


def held_checks(setup: Setup, pending: int, lead: float, seconds: float) -> Figures:
    """Hold `pending` halves; `lead` seconds later 1,000 of their checks fall due each second."""
    with setup.topics(transaction_check_interval_ms=_INTERVAL_MS) as topics:
        sent_log = SentLog(topics.home / "due", pending)
        with (
            setup.resolving(topics) as job,
            watch(topics, sent_log, topics.names.check(GROUP)),
            Peak() as peak,
        ):
            await_batch(job)
            due_at = time.time() + lead
            _store_halves(topics, sent_log, due_at)
            progress.await_read(job, progress.ends_of(topics))
            filled_by = time.time()
            held = _held(job, topics, due_at - filled_by - _MARGIN_SECONDS)
            before = progress.last_batch(job.query)
            time.sleep(max(0.0, due_at + seconds - time.time()))
            checking = progress.batch_figures(job.query, after=before)
            memory = progress.state_memory(job.query)
        return {
            "pending": pending,
            "filled_per_second": pending / (filled_by - due_at + lead),
            **{f"held_{name}": figure for name, figure in held.items()},
            **checking,
            **lateness(sent_log, due_at, due_at + seconds - _MARGIN_SECONDS),
            **memory,
            "memory_mb": peak.memory,
        }


def _store_halves(topics: Topics, sent_log: SentLog, due_at: float) -> None:
    options = {"no_ops": True, "sent_log": sent_log.path, "capacity": sent_log.count}
    with load(topics, sent_log.count, due_at=due_at, due_rate=_DUE_RATE, **options) as loading:
        loading.result()


def _held(job: Resolve, topics: Topics, seconds: float) -> dict[str, float]:
    """Return how long batches take while all are held and others come and end."""
    if seconds < _MARGIN_SECONDS:
        raise ResolverError("the checks fell due before all halves were read: give a longer lead")
    before = progress.last_batch(job.query)
    with load(topics, int(seconds * LIVE_RATE), rate=LIVE_RATE) as loading:
        loading.result()
    return progress.batch_figures(job.query, after=before)


def lateness(sent_log: SentLog, begin: float, end: float) -> dict[str, float]:
    """Return how late the checks were that fell due in a time, in ms, and how many are missing.

    A missing one is late without end: it counts in each quantile.
    """
    due = (sent_log.since >= begin) & (sent_log.since < end)
    seen = sent_log.visible[due] > 0
    late = np.where(seen, sent_log.visible[due] - sent_log.since[due], np.inf)
    checks, missing = int(seen.sum()), int((~seen).sum())
    return {"checks": checks, "missing": missing, **latency_figures(np.sort(late))}
