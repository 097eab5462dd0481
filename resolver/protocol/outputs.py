"""What the resolver writes: commits, checks, resolutions, discarded and quarantined records."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import orjson

from ..errors import ProtocolError
from . import names as n
from .half import Half
from .record import Headers, Record, header_bytes, record_bytes, short

#: What the marks of a quarantined record take at most, with room for some of the record.
LEAST_QUARANTINE_BYTES = 4096
_MAX_ERROR_BYTES = 1024


class Outcome(str, Enum):
    """How a transaction ended."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    DISCARD = "DISCARD"
    UNDELIVERABLE = "UNDELIVERABLE"


class Source(str, Enum):
    """Who ended it: the application, its answer to a check, an operator, a limit, delivery."""

    END = "END"
    CHECK = "CHECK"
    OPERATOR = "OPERATOR"
    LIMIT = "LIMIT"
    DELIVERY = "DELIVERY"


class DiscardReason(str, Enum):
    """Why a message is in `tx.discarded`."""

    CHECK_MAX = "CHECK_MAX"
    EXPIRED = "EXPIRED"
    UNDELIVERABLE = "UNDELIVERABLE"


class QuarantineReason(str, Enum):
    """Why a record, or an element of an op, was refused."""

    MALFORMED_HALF = "MALFORMED_HALF"
    MALFORMED_OP = "MALFORMED_OP"
    UNKNOWN_HALF = "UNKNOWN_HALF"
    GROUP_MISMATCH = "GROUP_MISMATCH"
    TRANSACTION_MISMATCH = "TRANSACTION_MISMATCH"
    CONFLICTING_END = "CONFLICTING_END"
    LATE_END = "LATE_END"
    NO_PERMISSION = "NO_PERMISSION"


class HalfAt(NamedTuple):
    """A stored half: where and when Kafka stored it, and all its headers as they were sent."""

    queue: int
    offset: int
    stored_at_ms: int
    half: Half
    all_headers: Headers

    @property
    def half_offset(self) -> str:
        return f"{self.queue}:{self.offset}"


class Resolution(NamedTuple):
    """The outcome of one transaction; times in ms, `ended_at` the op's LogAppendTime."""

    transaction_id: str
    queue: int
    offset: int
    outcome: Outcome
    source: Source
    group: str
    topic: str
    op_offset: int | None
    checks: int
    answered: int
    born_at: int
    stored_at: int
    ended_at: int | None
    decided_at: int
    batch_id: int
    query_id: str

    def to_record(self, resolution_topic: str) -> Record:
        """Encode as a record of the resolution topic."""
        key = self.transaction_id.encode()
        return Record(resolution_topic, key, orjson.dumps(self._asdict()), [])


def commit_record(at: HalfAt) -> Record:
    """Return the committed message: what the application sent, bit for bit, and where from."""
    half = at.half
    headers: Headers = [
        *half.headers,
        (n.UNIQ_KEY, half.transaction_id.encode()),
        (n.PGROUP, half.group.encode()),
        (n.HALF_OFFSET, at.half_offset.encode()),
    ]
    partition = -1 if half.real_qid is None else half.real_qid
    return Record(half.topic, half.key, half.body, headers, partition, at.stored_at_ms)


def check_record(at: HalfAt, checks: int, names: n.Names) -> Record:
    """Return the request that asks the group what became of a transaction."""
    return Record(
        names.check(at.half.group),
        at.half.transaction_id.encode(),
        at.half.body,
        [*at.all_headers, *_checked(at, checks)],
    )


def discarded_record(
    at: HalfAt, checks: int, reason: DiscardReason, error: str | None, names: n.Names
) -> Record:
    """Return the message of a transaction that was given up."""
    headers: Headers = [
        *at.all_headers,
        *_checked(at, checks),
        (n.REASON, reason.value.encode()),
    ]
    if error is not None:
        headers.append((n.ERROR, error.encode()))
    return Record(names.discarded, at.half.key, at.half.body, headers)


def _checked(at: HalfAt, checks: int) -> Headers:
    return [
        (n.TRANSACTION_CHECK_TIMES, str(checks).encode()),
        (n.HALF_OFFSET, at.half_offset.encode()),
    ]


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
        """Encode as a record of the quarantine topic, cut so that it takes `max_bytes` at most.

        At least `LEAST_QUARANTINE_BYTES`: what says why is never cut off.
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


#: As long as the longest legal one: a transaction id, of characters of four bytes.
_MAX_HALF_HEADER_BYTES = 4 * n.MAX_TRANSACTION_ID_LENGTH


def fitted(record: Record, max_bytes: int) -> Record:
    """Return an output cut so that it takes `max_bytes` at most, and marked so; itself if it fits.

    At least `LEAST_QUARANTINE_BYTES`: what this system's own headers say is never cut off.
    """
    if max_bytes < LEAST_QUARANTINE_BYTES:
        raise ValueError(f"max_bytes is {max_bytes}; give {LEAST_QUARANTINE_BYTES} or more")
    if record_bytes(record.key, record.value, record.headers) <= max_bytes:
        return record
    sent, marks = _apart(record.headers)
    marks.append((n.TRUNCATED, b"true"))
    left = max_bytes - record_bytes(None, None, marks)
    key, value, headers = _cut(record.key, record.value, sent, left)
    return record._replace(key=key, value=value, headers=[*headers, *marks])


def _apart(headers: Headers) -> tuple[Headers, Headers]:
    """Return the headers that may be cut off, and those that may not.

    These are this system's, the last of each name, and what makes a half one.
    """
    last = {name: place for place, (name, _) in enumerate(headers) if name in n.OUTPUT_HEADERS}
    last |= {
        name: place
        for place, (name, value) in enumerate(headers)
        if name in n.HALF_HEADERS and len(value or b"") <= _MAX_HALF_HEADER_BYTES
    }
    ours = set(last.values())
    sent = [header for place, header in enumerate(headers) if place not in ours]
    return sent, [headers[place] for place in sorted(ours)]


def _cut(
    key: bytes | None, value: bytes | None, headers: Headers, max_bytes: int
) -> tuple[bytes | None, bytes | None, Headers]:
    """Cut headers and key to a quarter each, the value to what is left."""
    kept: Headers = []
    room = max_bytes // 4
    for header in headers:
        room -= header_bytes(header)
        if room < 0:
            break
        kept.append(header)
    key = None if key is None else key[: max_bytes // 4]
    left = max_bytes - len(key or b"") - sum(map(header_bytes, kept))
    return key, None if value is None else value[:left], kept


def _cut_text(text: str, max_bytes: int) -> bytes:
    """Encode a text, cut between two characters."""
    cut = text.encode("utf-8", "replace")[:max_bytes]
    return cut.decode("utf-8", "ignore").encode()


def decode_resolution(value: bytes | None) -> Resolution:
    """Decode a record of the resolution topic; fields that are not known are passed over.

    Only this system writes it: `ProtocolError` says that something else did.
    """
    try:
        said: dict[str, Any] = orjson.loads(value or b"")
        fields = {name: said[name] for name in Resolution._fields}
        fields["outcome"] = Outcome(fields["outcome"])
        fields["source"] = Source(fields["source"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{short(value)} is no resolution: {short(str(error))}") from error
    return Resolution(**fields)
