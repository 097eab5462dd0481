"""Refused records, as the quarantine topic has them, and how any record is cut to a size."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from . import names as n
from .record import Headers, Record, headers_bytes, record_bytes

#: Smallest limit of a cut record in bytes: room for all marks and for some of the record.
LEAST_QUARANTINE_BYTES = 4096
_MAX_ERROR_BYTES = 1024


class QuarantineReason(str, Enum):
    """The reason why a record, or an element of an op, was refused."""

    MALFORMED_HALF = "MALFORMED_HALF"
    MALFORMED_OP = "MALFORMED_OP"
    UNKNOWN_HALF = "UNKNOWN_HALF"
    GROUP_MISMATCH = "GROUP_MISMATCH"
    TRANSACTION_MISMATCH = "TRANSACTION_MISMATCH"
    CONFLICTING_END = "CONFLICTING_END"
    LATE_END = "LATE_END"
    DELIVERED_TWICE = "DELIVERED_TWICE"


class Refused(NamedTuple):
    """A refused record, or one element of an op; `source` is `topic:partition:offset`."""

    source: str
    element: int | None
    reason: QuarantineReason
    error: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    def to_record(self, names: n.Names, max_bytes: int) -> Record:
        """Encode as a record of the quarantine topic, cut to `max_bytes`.

        `max_bytes` is at least `LEAST_QUARANTINE_BYTES`: the marks with the reason are never cut.
        """
        marks: Headers = [
            (n.REASON, self.reason.value.encode()),
            (n.ERROR, _cut_text(self.error, _MAX_ERROR_BYTES)),
            (n.SOURCE, self.source.encode()),
        ]
        if self.element is not None:
            marks.append((n.ELEMENT, str(self.element).encode()))
        record = Record(names.quarantine, self.key, self.value, [*self.headers, *marks])
        return fitted(record, max_bytes)


#: Longest legal value of a half's header in bytes: a transaction id with four bytes a character.
_MAX_HALF_HEADER_BYTES = 4 * n.MAX_TRANSACTION_ID_LENGTH


def fitted(record: Record, max_bytes: int) -> Record:
    """Return the record if it takes at most `max_bytes`; else a cut one with the mark `TRUNCATED`.

    `max_bytes` is at least `LEAST_QUARANTINE_BYTES`: this system's own headers are never cut.
    """
    if max_bytes < LEAST_QUARANTINE_BYTES:
        raise ValueError(f"max_bytes is {max_bytes}; give {LEAST_QUARANTINE_BYTES} or more")
    if record_bytes(record.key, record.value, record.headers) <= max_bytes:
        return record
    sent, marks = _apart(record.headers)
    marks.append((n.TRUNCATED, b"true"))
    room = max_bytes - record_bytes(None, None, marks)
    key, value, headers = _cut(record.key, record.value, sent, room)
    return record._replace(key=key, value=value, headers=[*headers, *marks])


def _apart(headers: Headers) -> tuple[Headers, Headers]:
    """Return the headers that may be cut, and the headers that may not.

    The second kind are this system's output headers and the protocol's headers of a half. Of a name
    that is repeated, only the last is of this kind.
    """
    last = {name: index for index, (name, _) in enumerate(headers) if name in n.OUTPUT_HEADERS}
    last |= {
        name: index
        for index, (name, value) in enumerate(headers)
        if name in n.HALF_HEADERS and len(value or b"") <= _MAX_HALF_HEADER_BYTES
    }
    ours = set(last.values())
    sent = [header for index, header in enumerate(headers) if index not in ours]
    return sent, [headers[index] for index in sorted(ours)]


def _cut(
    key: bytes | None, value: bytes | None, headers: Headers, max_bytes: int
) -> tuple[bytes | None, bytes | None, Headers]:
    """Cut headers and key to a quarter of the room each, and the value to the rest."""
    kept: Headers = []
    room = max_bytes // 4
    for header in headers:
        room -= headers_bytes([header])
        if room < 0:
            break
        kept.append(header)
    key = None if key is None else key[: max_bytes // 4]
    value_bytes = max_bytes - len(key or b"") - headers_bytes(kept)
    return key, None if value is None else value[:value_bytes], kept


def _cut_text(text: str, max_bytes: int) -> bytes:
    """Encode a text, cut between two characters."""
    cut = text.encode("utf-8", "replace")[:max_bytes]
    return cut.decode("utf-8", "ignore").encode()
