"""Records that the resolver writes: commits, checks, resolutions, discards and quarantine."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import orjson

from ..errors import ProtocolError
from . import names as n
from .half import Half
from .record import Headers, Record, headers_bytes, record_bytes, short

#: Smallest limit of a cut record in bytes: room for all marks and for some of the record.
LEAST_QUARANTINE_BYTES = 4096
_MAX_ERROR_BYTES = 1024


class Outcome(str, Enum):
    """The outcome of a transaction."""

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
    """The reason why a message is in `tx.discarded`."""

    CHECK_MAX = "CHECK_MAX"
    EXPIRED = "EXPIRED"
    UNDELIVERABLE = "UNDELIVERABLE"


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


#: Value of `delivery` where the producer wrote the message together with its op.
FAST_DELIVERY = "FAST"


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
    """The outcome of one transaction. Times are in ms since 1970.

    `ended_at` is the LogAppendTime of the op that ended the transaction. `delivery` is
    `FAST_DELIVERY` if the producer has delivered the message itself, None if the resolver has.
    """

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
    delivery: str | None = None

    def to_record(self, resolution_topic: str) -> Record:
        """Encode as a record of the resolution topic."""
        body = self._asdict()
        if self.delivery is None:
            del body["delivery"]
        return Record(resolution_topic, self.transaction_id.encode(), orjson.dumps(body), [])


def commit_record(at: HalfAt) -> Record:
    """Return the commit: the message as the application sent it, bit for bit, and its origin."""
    half = at.half
    headers: Headers = [
        *half.headers,
        (n.UNIQ_KEY, half.transaction_id.encode()),
        (n.PGROUP, half.group.encode()),
        *[header for header in at.all_headers if header[0] == n.BORN_TIMESTAMP],
        (n.HALF_OFFSET, at.half_offset.encode()),
    ]
    partition = -1 if half.real_qid is None else half.real_qid
    return Record(half.topic, half.key, half.body, headers, partition, at.stored_at_ms)


def check_record(at: HalfAt, checks: int, names: n.Names) -> Record:
    """Return the check that asks the group about a transaction.

    The half's key is the first header: there a user's header of that name can't be taken for it.
    """
    return Record(
        names.check(at.half.group),
        at.half.transaction_id.encode(),
        at.half.body,
        [(n.KEY, at.half.key), *at.all_headers, *_checked(at, checks)],
    )


def discarded_record(
    at: HalfAt, checks: int, reason: DiscardReason, error: str | None, names: n.Names
) -> Record:
    """Return the record for `tx.discarded` of a message that was given up or can't be delivered."""
    headers: Headers = [
        # Nobody delivers this half any more. An operator may bring it back as a new one.
        *[header for header in at.all_headers if header[0] != n.FAST],
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
    left = max_bytes - record_bytes(None, None, marks)
    key, value, headers = _cut(record.key, record.value, sent, left)
    return record._replace(key=key, value=value, headers=[*headers, *marks])


def _apart(headers: Headers) -> tuple[Headers, Headers]:
    """Return the headers that may be cut, and the headers that may not.

    The second kind are this system's output headers and the protocol's headers of a half. Of a name
    that is repeated, only the last is of this kind.
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
    """Cut headers and key to a quarter of the room each, and the value to the rest."""
    kept: Headers = []
    room = max_bytes // 4
    for header in headers:
        room -= headers_bytes([header])
        if room < 0:
            break
        kept.append(header)
    key = None if key is None else key[: max_bytes // 4]
    left = max_bytes - len(key or b"") - headers_bytes(kept)
    return key, None if value is None else value[:left], kept


def _cut_text(text: str, max_bytes: int) -> bytes:
    """Encode a text, cut between two characters."""
    cut = text.encode("utf-8", "replace")[:max_bytes]
    return cut.decode("utf-8", "ignore").encode()


def decode_resolution(value: bytes | None) -> Resolution:
    """Decode a record of the resolution topic; unknown fields are ignored.

    Only this system writes the topic: `ProtocolError` says that another client did.
    """
    try:
        said: dict[str, Any] = orjson.loads(value or b"")
        fields = {name: said[name] for name in Resolution._fields if name != "delivery"}
        fields["delivery"] = said.get("delivery")
        fields["outcome"] = Outcome(fields["outcome"])
        fields["source"] = Source(fields["source"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{short(value)} is no resolution: {short(str(error))}") from error
    return Resolution(**fields)
