"""Transactions that arrive while the resolver runs: how many it sustains, and how soon visible."""

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
from .sent_log import Ledger, Times
from .stage import Stage, Topics, await_batch, await_delivered, send, watch

#: Transactions on their way at once, in the closed loop: a few batches' worth, no backlog.
IN_FLIGHT = 50_000
#: More than this a second are not reached, so that a ledger has room for all.
_MOST_PER_SECOND = 60_000
#: Up to this rate one call for each message can follow; above, messages are sent in bulk.
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
        """Return how many transactions a ledger must have room for, a slow start included."""
        return int((self.warm_up + self.seconds + _START_SECONDS) * rate)


def sustained(
    stage: Stage, window: Window, form: str, body_bytes: int, fast: bool = False
) -> Figures:
    """As many as go through: a closed loop from the producer to the consumer."""
    with stage.topics() as topics, stage.resolving(topics) as job:
        await_batch(job)
        ledger = Ledger(topics.home / "sent", window.room(_MOST_PER_SECOND))
        options: dict[str, object] = {"form": form, "in_flight": IN_FLIGHT}
        options |= {"body_bytes": body_bytes, "fast": fast or None}
        figures = measure(topics, window, ledger, options, job.query)
    # In a closed loop they say how many are on their way, and that was given.
    return {name: one for name, one in figures.items() if name not in QUANTILES}


def at_rate(
    stage: Stage, window: Window, rate: int, body_bytes: int = 512, fast: bool = False
) -> Figures:
    """At a rate, sent whether or not earlier ones are visible: an open loop."""
    with stage.topics() as topics, stage.resolving(topics) as job:
        await_batch(job)
        ledger = Ledger(topics.home / "sent", window.room(rate))
        form = "threads" if rate <= _ONE_BY_ONE else "bulk"
        options = {"form": form, "rate": rate, "body_bytes": body_bytes, "fast": fast or None}
        return {"rate": rate, **measure(topics, window, ledger, options, job.query)}


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
    ledger: Ledger,
    options: dict[str, object],
    query: StreamingQuery,
    at_begin: Callable[[], None] = lambda: None,
) -> Figures:
    """Send, watch, and return the figures of the window; then see that each came once.

    `at_begin` is called when the window begins, and its time counts too.
    """
    with watch(topics, ledger) as watcher, send(topics, ledger, **options) as sender:
        _await_first(ledger, sender, query)
        time.sleep(window.warm_up)
        warm = progress.last_batch(query)
        with Peak() as peak:
            begin, before = time.time(), usage()
            at_begin()
            time.sleep(window.seconds)
            end, after = time.time(), usage()
        batches = progress.batch_figures(query, after=warm)
        sent = int(sender.result())
        await_delivered(ledger, sent, watcher)
    visible, ended = ledger.became_visible(begin, end), ledger.ended(begin, end)
    return {
        # Neither what was left from before, nor what is only on its way, is sustained.
        "per_second": min(visible, ended) / (end - begin),
        "sent_per_second": ended / (end - begin),
        "visible_per_second": visible / (end - begin),
        **latency_figures(ledger.waits(begin, end)),
        **per_million(spent(before, after), visible),
        "memory_mb": peak.memory,
        **batches,
        "lost": sent - ledger.delivered,
        "doubled": ledger.doubled(),
    }


def _await_first(ledger: Ledger, sender: Program, query: StreamingQuery) -> None:
    """Wait for the first message: the producer's process has started."""
    while not ledger.delivered and sender.running():
        if not query.isActive:
            raise ResolverError(f"the query ended before anything came: {query.exception()}")
        time.sleep(0.01)
