"""A Kafka record as both sides see it."""

from __future__ import annotations

from typing import NamedTuple

#: Kafka headers in their order; names may repeat, values may be null.
Headers = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    """A record to be produced; partition -1 leaves the choice to the partitioner."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    timestamp_ms: int = 0


def text(value: bytes) -> str | None:
    """Decode a header's value as UTF-8; None if it is not."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def short(value: object) -> str:
    """Quote a value in an error's text, at most 80 characters of it: it may be anybody's."""
    head = value[:80] if isinstance(value, (str, bytes)) else value
    written = repr(head)
    return written if head == value and len(written) <= 80 else written[:77] + "..."
