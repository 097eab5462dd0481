"""A finding of the doctor: how bad it is, what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from confluent_kafka import KafkaException

from ..errors import TxResolverError


class Level(str, Enum):
    """How bad a finding is; the exit code is that of the worst."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"

    @property
    def exit_code(self) -> int:
        return {Level.OK: 0, Level.WARNING: 6, Level.ERROR: 7}[self]


class Finding(NamedTuple):
    """What was looked at, what was seen, and the remedy; it is empty where all is well."""

    level: Level
    about: str
    seen: str
    remedy: str = ""


def ok(about: str, seen: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Level.OK, about, seen)


def warning(about: str, seen: str, remedy: str) -> Finding:
    """Return a finding that something may go wrong, or could not be looked at."""
    return Finding(Level.WARNING, about, seen, remedy)


def error(about: str, seen: str, remedy: str) -> Finding:
    """Return a finding that stops the resolver, or breaks a guarantee."""
    return Finding(Level.ERROR, about, seen, remedy)


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level."""
    levels = [finding.level for finding in findings]
    return max(levels, key=lambda level: level.exit_code, default=Level.OK)


def looked(about: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what a look finds; a look that fails is a finding too, and the others go on."""
    try:
        yield from look()
    except (TxResolverError, OSError) as failed:
        yield warning(
            about, f"can't be looked at: {failed}", "do what the text says, and ask again"
        )
    except KafkaException as failed:
        yield warning(
            about,
            f"can't be looked at: {failed.args[0].str()} ({failed.args[0].name()})",
            "run the doctor with a login that may describe the cluster, its topics and groups",
        )
    except Exception as failed:  # a damaged file, a library without its metadata: what it is for
        yield warning(
            about,
            f"can't be looked at: {type(failed).__name__}: {failed}",
            "see that its files are whole, and that the libraries are installed as pip does",
        )
