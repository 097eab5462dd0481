"""A backlog: all stored before the resolver starts."""

from __future__ import annotations

import time

from . import progress
from .processes import Peak, spent, usage
from .results import Figures, per_million
from .sent_log import SentLog
from .setup import Setup, Topics, await_delivered, load, watch


def backlog(setup: Setup, transactions: int, body_bytes: int = 512) -> Figures:
    """Store transactions, resolve them, and see that each was delivered once."""
    with setup.topics() as topics:
        with load(topics, transactions, body_bytes=body_bytes) as loading:
            loading.result()
        return resolve_backlog(setup, topics, transactions) | delivered(topics, transactions)


def resolve_backlog(setup: Setup, topics: Topics, transactions: int) -> Figures:
    """Resolve what is stored: from the start until the last batch is committed."""
    ends = progress.ends_of(topics)
    with setup.resolving(topics) as job, Peak() as peak:
        started, before = time.monotonic(), usage()
        progress.await_read(job, ends)
        seconds, after = time.monotonic() - started, usage()
        figures = progress.batch_figures(job.query, after=-1) | progress.state_memory(job.query)
    return {
        "transactions": transactions,
        "per_second": transactions / seconds,
        **figures,
        **per_million(spent(before, after), transactions),
        "memory_mb": peak.memory,
    }


def delivered(topics: Topics, transactions: int) -> Figures:
    """Read the real topic, and count what is lost and what is there twice."""
    sent_log = SentLog(topics.home / "delivered", transactions)
    with watch(topics, sent_log) as watcher:
        await_delivered(sent_log, transactions, watcher)
    # The watcher has ended: it has read all that is there.
    return {"lost": transactions - sent_log.delivered, "doubled": sent_log.doubled()}
