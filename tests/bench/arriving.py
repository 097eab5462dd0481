"""Transactions that arrive while the resolver runs: how many go through, and how soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.streaming.query import StreamingQuery

from resolver.errors import ResolverError

from . import progress
from .processes import Peak, spent, usage
from .program import Program
from .results import Figures, per_million
from .sent_log import SentLog, Times
from .setup import Setup, Topics, await_batch, await_delivered, send, watch

#: Transactions on their way at once, in the closed loop: a few batches' worth, no backlog.
IN_FLIGHT = 50_000
#: Transactions a second that no run reaches, so that a sent log has room for all.
_MOST_PER_SECOND = 60_000
#: Most transactions a second for which each message has its own call. Above, they go in bulk.
_ONE_BY_ONE = 2_000
_START_SECONDS = 30.0
_MILLISECONDS = 1_000
QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}


@dataclass(frozen=True)
class Window:
    """A load runs for `warm_up` seconds, then for `seconds` that count."""

    warm_up: float
    seconds: float

    def room(self, rate: float) -> int:
        """Return the room that a sent log needs, in transactions, a slow start included."""
        return int((self.warm_up + self.seconds + _START_SECONDS) * rate)


def sustained(
    setup: Setup, window: Window, form: str, body_bytes: int, fast: bool = False
) -> Figures:
    """Measure how many go through: a closed loop from the producer to the consumer."""
    with setup.topics() as topics, setup.resolving(topics) as job:
        await_batch(job)
        sent_log = SentLog(topics.home / "sent", window.room(_MOST_PER_SECOND))
        options: dict[str, object] = {"form": form, "in_flight": IN_FLIGHT}
        options |= {"body_bytes": body_bytes, "fast": fast or None}
        figures = measure(topics, window, sent_log, options, job.query)
    # Leave the quantiles out: in a closed loop they follow from `IN_FLIGHT`.
    return {name: figure for name, figure in figures.items() if name not in QUANTILES}


def at_rate(
    setup: Setup, window: Window, rate: int, body_bytes: int = 512, fast: bool = False
) -> Figures:
    """Measure at a rate: an open loop, which sends whether or not earlier ones are visible."""
    with setup.topics() as topics, setup.resolving(topics) as job:
        await_batch(job)
        sent_log = SentLog(topics.home / "sent", window.room(rate))
        form = "threads" if rate <= _ONE_BY_ONE else "bulk"
        options = {"form": form, "rate": rate, "body_bytes": body_bytes, "fast": fast or None}
        return {"rate": rate, **measure(topics, window, sent_log, options, job.query)}


def latency_figures(waits: Times) -> dict[str, float]:
    """Return quantiles of sorted seconds, in ms."""
    if not len(waits):
        return {}
    last = len(waits) - 1
    return {
        name: float(waits[min(last, int(len(waits) * mark))]) * _MILLISECONDS
        for name, mark in QUANTILES.items()
    }


def measure(
    topics: Topics,
    window: Window,
    sent_log: SentLog,
    options: dict[str, object],
    query: StreamingQuery,
    at_begin: Callable[[], None] = lambda: None,
) -> Figures:
    """Send and watch; return the figures of the window, and how many are lost or doubled.

    `at_begin` is called when the window begins, and its time counts too.
    """
    with watch(topics, sent_log) as watcher, send(topics, sent_log, **options) as sender:
        _await_first(sent_log, sender, query)
        time.sleep(window.warm_up)
        warm = progress.last_batch(query)
        with Peak() as peak:
            begin, before = time.time(), usage()
            at_begin()
            time.sleep(window.seconds)
            end, after = time.time(), usage()
        batches = progress.batch_figures(query, after=warm)
        sent = int(sender.result())
        await_delivered(sent_log, sent, watcher)
    visible, ended = sent_log.became_visible(begin, end), sent_log.ended(begin, end)
    return {
        # Take the lesser: messages from before, or still on their way, are not sustained.
        "per_second": min(visible, ended) / (end - begin),
        "sent_per_second": ended / (end - begin),
        "visible_per_second": visible / (end - begin),
        **latency_figures(sent_log.waits(begin, end)),
        **per_million(spent(before, after), visible),
        "memory_mb": peak.memory,
        **batches,
        "lost": sent - sent_log.delivered,
        "doubled": sent_log.doubled(),
    }


def _await_first(sent_log: SentLog, sender: Program, query: StreamingQuery) -> None:
    """Wait for the first message: the producer's process has started."""
    while not sent_log.delivered and sender.running():
        if not query.isActive:
            raise ResolverError(f"the query ended before anything came: {query.exception()}")
        time.sleep(0.01)
