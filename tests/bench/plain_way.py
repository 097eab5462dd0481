"""The plain Spark way measured: its backlog, its latency, its state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql.streaming.query import StreamingQuery

from . import progress
from .arriving import Window, measure
from .backlog import delivered
from .native import native_settings
from .plain import plain_join
from .processes import Peak, spent, usage
from .results import Figures, per_million
from .sent_log import SentLog
from .setup import Setup, Topics, load

#: Seconds that an end may come after its half: as long as the resolver waits before it asks, and
#: long enough that no end of the clean input is late.
NARROW_SECONDS = 6
WIDE_SECONDS = 600


@contextmanager
def joining(setup: Setup, topics: Topics, wait_seconds: int) -> Iterator[StreamingQuery]:
    """Run the plain join."""
    with native_settings(setup) as tasks:
        query = plain_join(setup.spark, topics.settings, topics.checkpoint, wait_seconds, tasks)
    try:
        yield query
    finally:
        query.stop()


def plain_backlog(setup: Setup, transactions: int, wait_seconds: int) -> Figures:
    """The backlog of `backlog`, joined: from the start until the last batch is committed."""
    with setup.topics() as topics:
        with load(topics, transactions) as loading:
            loading.result()
        ends = progress.ends_of(topics)
        with joining(setup, topics, wait_seconds) as query, Peak() as peak:
            started, before = time.monotonic(), usage()
            progress.await_joined(query, ends)
            seconds, after = time.monotonic() - started, usage()
            figures = progress.batch_figures(query, after=-1) | progress.state_memory(query)
        return {
            "transactions": transactions,
            "per_second": transactions / seconds,
            **figures,
            **per_million(spent(before, after), transactions),
            "memory_mb": peak.memory,
            **_state(setup, topics),
            **delivered(topics, transactions),
        }


def plain_at_rate(setup: Setup, window: Window, rate: int, wait_seconds: int) -> Figures:
    """The load of `at_rate`, joined."""
    with setup.topics() as topics, joining(setup, topics, wait_seconds) as query:
        sent_log = SentLog(topics.home / "sent", window.room(rate))
        options = {"form": "threads", "rate": rate}
        return {"rate": rate, **measure(topics, window, sent_log, options, query)}


def _state(setup: Setup, topics: Topics) -> dict[str, float]:
    """Return the rows that the join keeps, by its state as it is in the checkpoint."""
    reader = setup.spark.read.format("statestore")
    sides = [reader.option("joinSide", side).load(topics.checkpoint) for side in ("left", "right")]
    return {"state_rows": sum(side.count() for side in sides)}
