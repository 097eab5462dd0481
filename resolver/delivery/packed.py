"""Decisions on their way from Spark's workers to delivery: as records, in a few binaries a queue.

A worker makes the records, so that what delivery has left to do with each is to hand it over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgpack

from ..protocol import (
    DiscardReason,
    HalfAt,
    Names,
    Outcome,
    Record,
    Resolution,
    Source,
    check_record,
    commit_record,
    decode_half,
    decode_resolution,
    discarded_record,
    fitted,
)
from ..protocol.record import Headers
from ..step import Decisions, Ended

#: Spark moves rows whole: what one row of decisions may hold.
_PART_BYTES = 4 * 1024 * 1024
_PART_DECISIONS = 10_000
#: More than what Kafka puts around the records of a batch.
_BATCH_BYTES = 128


class Message(NamedTuple):
    """A record to be produced, as `produce` takes it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int
    timestamp_ms: int

    def cut(self, max_bytes: int) -> Message:
        """Return it cut so that a record batch with it takes `max_bytes`, and marked so."""
        record = Record(
            self.topic, self.key, self.value, list(self.headers), self.partition, self.timestamp_ms
        )
        return as_message(fitted(record, max_bytes - _BATCH_BYTES))


class Decision(NamedTuple):
    """One decision as the records that say it: a message, a resolution, or both.

    `half` holds the half's own headers, packed, where the message is a commit: it may yet prove
    undeliverable.
    """

    message: Message | None
    resolution: Message | None = None
    half: bytes | None = None

    def undeliverable(self, error: str, names: Names) -> Decision:
        """Return the decision of a commit that can't be delivered."""
        message, resolution = self.message, self.resolution
        if message is None or resolution is None or self.half is None:
            raise ValueError("only a commit can be undeliverable")
        said = decode_resolution(resolution.value)
        headers: Headers = list(msgpack.unpackb(self.half, use_list=False))
        half = decode_half(message.key, message.value, headers, names.prefix)
        at = HalfAt(said.queue, said.offset, said.stored_at, half, headers)
        given_up = discarded_record(at, said.checks, DiscardReason.UNDELIVERABLE, error, names)
        said = said._replace(outcome=Outcome.UNDELIVERABLE, source=Source.DELIVERY)
        return Decision(as_message(given_up), as_message(said.to_record(names.resolution)))


class Batch(NamedTuple):
    """The batch that decisions are of, as `tx.resolution` names it."""

    batch_id: int
    query_id: str


def pack(decisions: Decisions, names: Names, batch: Batch, max_bytes: int) -> Iterator[bytes]:
    """Pack decisions, in their order; `max_bytes` is what a quarantined record may take.

    The same decisions give the same bytes. There is at least one binary.
    """
    packer = msgpack.Packer()  # one: to make one is dearer than what it packs
    part: list[_Row] = []
    size, first = 0, True
    for row in _rows(decisions, names, batch, max_bytes, packer):
        part.append(row)
        size += _size(row)
        if size >= _PART_BYTES or len(part) >= _PART_DECISIONS:
            yield packer.pack(part)
            part, size, first = [], 0, False
    if part or first:
        yield packer.pack(part)


def unpack(packed: bytes) -> list[Decision]:
    """Undo `pack`."""
    return [
        Decision(message and Message._make(message), said and Message._make(said), half)
        for message, said, half in msgpack.unpackb(packed, use_list=False)
    ]


#: A decision before it is packed.
_Row = tuple[Record | None, Record | None, bytes | None]


def _rows(
    decisions: Decisions, names: Names, batch: Batch, max_bytes: int, packer: msgpack.Packer
) -> Iterator[_Row]:
    for ended in decisions.ended:
        yield _ended(ended, names, batch, packer)
    for check in decisions.checks:
        yield check_record(check.at, check.checks, names), None, None
    for refused in decisions.refused:
        yield refused.to_record(names, max_bytes), None, None


def _ended(ended: Ended, names: Names, batch: Batch, packer: msgpack.Packer) -> _Row:
    at = ended.at
    said = _resolution(ended, batch).to_record(names.resolution)
    if ended.outcome is Outcome.COMMIT:
        return commit_record(at), said, packer.pack(at.all_headers)
    if ended.reason is None:
        return None, said, None
    return discarded_record(at, ended.checks, ended.reason, None, names), said, None


def _size(row: _Row) -> int:
    """Return about how many bytes a decision takes; a message's headers as those of its half."""
    record, _, half = row
    if record is None:
        return 0
    return len(record.key or b"") + len(record.value or b"") + 2 * len(half or b"")


def _resolution(ended: Ended, batch: Batch) -> Resolution:
    at, half = ended.at, ended.at.half
    return Resolution(  # by position: by name it takes three times as long
        half.transaction_id,
        at.queue,
        at.offset,
        ended.outcome,
        ended.source,
        half.group,
        half.topic,
        ended.op_offset,
        ended.checks,
        ended.answered,
        half.born_at_ms,
        at.stored_at_ms,
        ended.ended_at_ms,
        ended.decided_at_ms,
        batch.batch_id,
        batch.query_id,
    )


def as_message(record: Record) -> Message:
    """Return a record as it is handed to the producer."""
    return Message(
        record.topic,
        record.key,
        record.value,
        tuple(record.headers),
        record.partition,
        record.timestamp_ms,
    )
