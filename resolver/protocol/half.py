"""Halves: messages that are stored in `tx.half`, invisible until an op commits them.

`commit_record` makes a half's commit: the record that consumers read.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import MalformedHalf
from . import half_headers
from . import names as n
from .record import Headers, Record


class HalfId(NamedTuple):
    """The identity of a transaction: the queue and the offset of its half."""

    queue: int
    offset: int

    def __str__(self) -> str:
        return f"{self.queue}:{self.offset}"


class Half(NamedTuple):
    """A half. `headers` are the user's own, in their order; `key` and `body` are untouched.

    `immunity_seconds` is the header's value if it is a whole number above 0, else None. `fast_id`
    is the transactional id by which the producer may commit the half itself, None without one.

    A half is a named tuple, frozen and the cheapest to make: the resolver makes one for each
    transaction.
    """

    transaction_id: str
    group: str
    topic: str
    born_at_ms: int
    key: bytes | None
    body: bytes | None
    headers: Headers
    real_qid: int | None = None
    immunity_seconds: int | None = None
    fast_id: str | None = None

    def to_record(self, half_topic: str, queue: int = -1) -> Record:
        """Encode as a record of the half topic."""
        headers: Headers = [
            (n.TRAN_MSG, b"true"),
            (n.UNIQ_KEY, self.transaction_id.encode()),
            (n.PGROUP, self.group.encode()),
            (n.REAL_TOPIC, self.topic.encode()),
            (n.BORN_TIMESTAMP, str(self.born_at_ms).encode()),
        ]
        if self.real_qid is not None:
            headers.append((n.REAL_QID, str(self.real_qid).encode()))
        if self.immunity_seconds is not None:
            immunity = str(self.immunity_seconds).encode()
            headers.append((n.CHECK_IMMUNITY_TIME_IN_SECONDS, immunity))
        if self.fast_id is not None:
            headers.append((n.FAST, self.fast_id.encode()))
        return Record(half_topic, self.key, self.body, headers + self.headers, queue)


class StoredHalf(NamedTuple):
    """A stored half: where and when Kafka stored it, and all its headers as they were sent."""

    queue: int
    offset: int
    stored_at_ms: int
    half: Half
    all_headers: Headers

    @property
    def half_offset(self) -> str:
        return f"{self.queue}:{self.offset}"


def commit_record(stored_half: StoredHalf) -> Record:
    """Return the commit: the message as the application sent it, bit for bit, and its origin."""
    half = stored_half.half
    headers: Headers = [
        *half.headers,
        (n.UNIQ_KEY, half.transaction_id.encode()),
        (n.PGROUP, half.group.encode()),
        *[header for header in stored_half.all_headers if header[0] == n.BORN_TIMESTAMP],
        (n.HALF_OFFSET, stored_half.half_offset.encode()),
    ]
    partition = -1 if half.real_qid is None else half.real_qid
    return Record(half.topic, half.key, half.body, headers, partition, stored_half.stored_at_ms)


def decode_half(
    key: bytes | None, body: bytes | None, headers: Headers, prefix: str = "tx."
) -> Half:
    """Decode a record of the half topic (or of a check topic, without its output headers).

    Raises `MalformedHalf` with the header's name and value.
    """
    protocol: half_headers.HeaderValues = {}
    user: Headers = []
    for header in headers:
        name = header[0]
        if name in n.HALF_HEADERS:
            if name in protocol:
                raise MalformedHalf(f"header {name} is repeated", remedy="send it once")
            protocol[name] = header[1]
        elif name in n.OUTPUT_HEADERS:
            raise MalformedHalf(f"header {name} is reserved for this system's outputs")
        else:
            user.append(header)
    if protocol.get(n.TRAN_MSG) != b"true":
        raise half_headers.illegal(n.TRAN_MSG, protocol, "must be 'true'")
    transaction_id = half_headers.transaction_id(protocol)
    group = half_headers.group(protocol, prefix)
    return Half(
        transaction_id=transaction_id,
        group=group,
        topic=half_headers.topic(protocol, prefix),
        born_at_ms=half_headers.born_at(protocol),
        key=key,
        body=body,
        headers=user,
        real_qid=half_headers.real_qid(protocol),
        immunity_seconds=half_headers.immunity(protocol.get(n.CHECK_IMMUNITY_TIME_IN_SECONDS)),
        fast_id=half_headers.fast_id(protocol, group, prefix),
    )
