"""What a failed query says, in a line."""

from __future__ import annotations

from resolver.errors import ResolverError

_LINES = 3
_CHARACTERS = 600
_OURS = f"{ResolverError.__module__}."
_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "Python worker exited unexpectedly")
_MORE_MEMORY = (
    "A process of Spark's has run out of memory, or was killed: set more spark.driver.memory (on a "
    "cluster spark.executor.memory too), and leave as much to the Python workers beside it"
)


def query_failed(
    query: str, failure: Exception, log: str = "Spark's log", remedy: str = ""
) -> ResolverError:
    """Return the error of a query that failed; `log` is where to read on, `remedy` what to do.

    Where memory seems to have been too small the remedy is to give more. What our own code raised
    says itself what to do.
    """
    if _OURS in str(failure):
        remedy = ""
    if any(sign in str(failure) for sign in _OF_MEMORY):
        remedy = _MORE_MEMORY
    more = f". {remedy}" if remedy else ""
    return ResolverError(f"the query {query} ended: {in_short(str(failure))}; see {log}{more}")


def in_short(said: str) -> str:
    """Return the first lines that say what happened, without the plan and the stacks around them.

    Spark appends the query's whole plan. What a Python function raised stands behind the frames
    of its traceback, the last of which is the innermost.
    """
    told = said.partition("\n=== Streaming Query ===")[0]
    *_, innermost = told.split("Traceback (most recent call last):\n")
    lines = [line.strip() for line in innermost.splitlines() if line[:1].strip()]
    short = " ".join(lines[:_LINES]).rstrip(".")
    return short if len(short) <= _CHARACTERS else f"{short[:_CHARACTERS]}..."
