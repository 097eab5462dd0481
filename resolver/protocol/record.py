"""Kafka records: to be produced, and as they are stored."""

from __future__ import annotations

from collections.abc import Iterable
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
    """Return the most bytes that a record takes; its lengths, offset and time are varints."""
    return _RECORD_OVERHEAD + len(key or b"") + len(value or b"") + headers_bytes(headers)


def headers_bytes(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return the most bytes that headers take."""
    size = 0
    for name, value in headers:  # one loop without calls: each half's headers go through it
        # Encode only where needed: a character has up to four bytes, most names are ASCII, and the
        # question is cheaper.
        size += _HEADER_OVERHEAD + (len(name) if name.isascii() else len(name.encode()))
        if value:
            size += len(value)
    return size


def text(value: bytes) -> str | None:
    """Decode a header's value as UTF-8; return None if it is not."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def printable(text: str) -> str:
    """Return a text without control characters: anybody may write an id or a remark."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def short(value: object) -> str:
    """Quote a value in an error's text, at most 80 characters of it: it may come from anybody.

    Of a list or an object only the size is quoted: it may be nested too deep to be written.
    """
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    head = value[:80] if isinstance(value, (str, bytes)) else value
    written = repr(head)
    return written if head == value and len(written) <= 80 else written[:77] + "..."
