"""A backlog: all stored before the resolver starts."""

from __future__ import annotations

import time

from . import progress
from .processes import Peak, spent, usage
from .results import Figures, per_million
from .sent_log import Ledger
from .stage import Stage, Topics, await_delivered, load, watch


def backlog(stage: Stage, transactions: int, body_bytes: int = 512) -> Figures:
    """Store transactions, resolve them, and see that each was delivered once."""
    with stage.topics() as topics:
        with load(topics, transactions, body_bytes=body_bytes) as loading:
            loading.result()
        return resolve_backlog(stage, topics, transactions) | delivered(topics, transactions)


def resolve_backlog(stage: Stage, topics: Topics, transactions: int) -> Figures:
    """Resolve what is stored: from the start until the last batch is committed."""
    ends = progress.ends_of(topics)
    with stage.resolving(topics) as job, Peak() as peak:
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
    ledger = Ledger(topics.home / "delivered", transactions)
    with watch(topics, ledger) as watcher:
        await_delivered(ledger, transactions, watcher)
    # The watcher has ended: it has read all that is there.
    return {"lost": transactions - ledger.delivered, "doubled": ledger.doubled()}
