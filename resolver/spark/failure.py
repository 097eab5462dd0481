"""The error of a failed query, in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import ResolverError, TxResolverError

_LINES = 3
_CHARACTERS = 600
#: Text behind which an error of ours stands, as JSON: its message and its remedy.
_SENT = "sent to the driver: "
_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "Python worker exited unexpectedly")
_MORE_MEMORY = (
    "A process of Spark's has run out of memory, or was killed: set more spark.driver.memory (on a "
    "cluster spark.executor.memory too), and leave as much to the Python workers beside it"
)
#: Spark says so where no Python worker has started within 10 s. No setting makes it longer.
_NO_START = "Python worker failed to connect back"
_START_AGAIN = (
    "No Python worker started within 10 s: the machine was too busy, or the worker failed, and the "
    "log says why. Start again; nothing is damaged, lost or delivered twice"
)


@contextmanager
def sent_whole() -> Iterator[None]:
    """Send an error of ours to the driver with its remedy: Spark would send its text alone.

    `query_failed` reads it there. Code that Spark calls has to be in such a block.
    """
    try:
        yield
    except TxResolverError as error:
        raise RuntimeError(_SENT + json.dumps([error.message, error.remedy])) from error


def query_failed(
    query: str, failure: Exception, log: str = "Spark's log", remedy: str = ""
) -> ResolverError:
    """Return the error of a query that failed, with the name of the `log` and the `remedy`.

    Where memory seems to have been too small, the remedy is to give more; where no Python
    worker started, to start again. An error of our own code has its own.
    """
    _, is_sent, sent = str(failure).rpartition(_SENT)
    if is_sent:
        (message, own), _ = json.JSONDecoder().raw_decode(sent)
        return ResolverError(f"the query {query} ended: {message}", remedy=own or f"see {log}")
    if any(sign in str(failure) for sign in _OF_MEMORY):
        remedy = _MORE_MEMORY
    elif _NO_START in str(failure):
        remedy = _START_AGAIN
    more = f". {remedy}" if remedy else ""
    ended = f"the query {query} ended: {in_short(str(failure))}"
    return ResolverError(ended, remedy=f"see {log}{more}")


def in_short(text: str) -> str:
    """Return the first lines that name the cause, without the plan and the stacks around them.

    Spark appends the query's whole plan. The error of a Python function stands behind the frames of
    its traceback. The last traceback is the innermost.
    """
    without_plan = text.partition("\n=== Streaming Query ===")[0]
    *_, innermost = without_plan.split("Traceback (most recent call last):\n")
    lines = [line.strip() for line in innermost.splitlines() if line[:1].strip()]
    short = " ".join(lines[:_LINES]).rstrip(".")
    return short if len(short) <= _CHARACTERS else f"{short[:_CHARACTERS]}..."
