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
from .sent_log import Ledger
from .stage import Stage, Topics, load

#: As long as the resolver waits before it asks; and so long that no end of the clean input is late.
NARROW_SECONDS = 6
WIDE_SECONDS = 600


@contextmanager
def joining(stage: Stage, topics: Topics, wait_seconds: int) -> Iterator[StreamingQuery]:
    """Run the plain join."""
    with native_settings(stage) as tasks:
        query = plain_join(stage.spark, topics.settings, topics.checkpoint, wait_seconds, tasks)
    try:
        yield query
    finally:
        query.stop()


def plain_backlog(stage: Stage, transactions: int, wait_seconds: int) -> Figures:
    """The backlog of `backlog`, joined: from the start until the last batch is committed."""
    with stage.topics() as topics:
        with load(topics, transactions) as loading:
            loading.result()
        ends = progress.ends_of(topics)
        with joining(stage, topics, wait_seconds) as query, Peak() as peak:
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
            **_state(stage, topics),
            **delivered(topics, transactions),
        }


def plain_at_rate(stage: Stage, window: Window, rate: int, wait_seconds: int) -> Figures:
    """The load of `at_rate`, joined."""
    with stage.topics() as topics, joining(stage, topics, wait_seconds) as query:
        ledger = Ledger(topics.home / "sent", window.room(rate))
        options = {"form": "threads", "rate": rate}
        return {"rate": rate, **measure(topics, window, ledger, options, query)}


def _state(stage: Stage, topics: Topics) -> dict[str, float]:
    """Return the rows that the join keeps, by its state as it is in the checkpoint."""
    reader = stage.spark.read.format("statestore")
    sides = [reader.option("joinSide", side).load(topics.checkpoint) for side in ("left", "right")]
    return {"state_rows": sum(side.count() for side in sides)}
