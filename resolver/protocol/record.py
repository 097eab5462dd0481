"""A Kafka record as both sides see it."""

from __future__ import annotations

from typing import NamedTuple

#: Kafka headers in their order; names may repeat, values may be null.
Headers = list[tuple[str, bytes | None]]

_RECORD_OVERHEAD = 36  # the longest varints of length, attributes, time, offset, key, value, count
_HEADER_OVERHEAD = 10


class Record(NamedTuple):
    """A record to be produced; partition -1 leaves the choice to the partitioner."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    timestamp_ms: int = 0


class StoredRecord(NamedTuple):
    """A record as Kafka has it; `headers` is None where a header's name is not UTF-8."""

    offset: int
    stored_at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return what a record takes at most: its lengths, offset and time are written as varints."""
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for header in headers:
        size += header_bytes(header)
    return size


def header_bytes(header: tuple[str, bytes | None]) -> int:
    """Return what a header takes at most."""
    name, value = header
    # A character is up to four bytes; most names are ASCII, and asking is cheaper.
    name_bytes = len(name) if name.isascii() else len(name.encode())
    return name_bytes + len(value or b"") + _HEADER_OVERHEAD


def text(value: bytes) -> str | None:
    """Decode a header's value as UTF-8; None if it is not."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def short(value: object) -> str:
    """Quote a value in an error's text, at most 80 characters of it: it may be anybody's.

    Of what holds other values only the size is told: it may be nested too deep to be written.
    """
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    head = value[:80] if isinstance(value, (str, bytes)) else value
    written = repr(head)
    return written if head == value and len(written) <= 80 else written[:77] + "..."
