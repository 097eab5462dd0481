"""What the resolver writes: commits, checks, resolutions, discarded and quarantined records."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import orjson

from . import names as n
from .half import Half
from .record import Headers, Record


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
        """Encode as a record of the quarantine topic; its value is cut to fit `max_bytes`."""
        marks: Headers = [
            (n.REASON, self.reason.value.encode()),
            (n.ERROR, self.error.encode("utf-8", "replace")[:1024]),
            (n.SOURCE, self.source.encode()),
        ]
        if self.element is not None:
            marks.append((n.ELEMENT, str(self.element).encode()))
        headers, key, value = self.headers, self.key, self.value
        if _size(key, value, headers) > max_bytes:
            marks.append((n.TRUNCATED, b"true"))
            headers = _fitting(headers, max_bytes // 4)
            key = key[: max_bytes // 4] if key is not None else None
            value = value[: max_bytes // 4] if value is not None else None
        return Record(names.quarantine, key, value, [*headers, *marks])


def _fitting(headers: Headers, max_bytes: int) -> Headers:
    kept: Headers = []
    for header in headers:
        max_bytes -= len(header[0]) * 4 + len(header[1] or b"") + 12
        if max_bytes < 0:
            break
        kept.append(header)
    return kept


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    named = sum(len(name.encode()) + len(content or b"") + 12 for name, content in headers)
    return len(key or b"") + len(value or b"") + named


def decode_resolution(value: bytes) -> Resolution:
    """Decode a record of the resolution topic, which only this system writes."""
    fields: dict[str, Any] = orjson.loads(value)
    fields["outcome"] = Outcome(fields["outcome"])
    fields["source"] = Source(fields["source"])
    return Resolution(**fields)
