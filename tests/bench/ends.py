"""Late, repeated and conflicting ends: what each way delivers."""

from __future__ import annotations

from . import progress
from .histories import Histories, outcome_figures
from .plain_way import joining
from .results import Figures
from .setup import Setup, await_batch

_RATE = 200


def ends_resolved(setup: Setup, count: int) -> Figures:
    """The histories, resolved by this project."""
    with setup.topics() as topics:
        with setup.resolving(topics) as job:
            await_batch(job)
            Histories(topics, _RATE).send(count)
            progress.await_read(job, progress.ends_of(topics))
        return outcome_figures(topics, count)


def ends_joined(setup: Setup, count: int, wait_seconds: int) -> Figures:
    """The same, by the plain join."""
    with setup.topics() as topics:
        with joining(setup, topics, wait_seconds) as query:
            Histories(topics, _RATE).send(count)
            progress.await_joined(query, progress.ends_of(topics))
        return outcome_figures(topics, count)
