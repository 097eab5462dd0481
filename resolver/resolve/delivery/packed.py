"""Decisions on their way from Spark's workers to delivery: each queue sends a few binaries.

A worker makes the records. Delivery hands most of them on unchanged. `commit_record`
in `resolver/protocol/half.py` makes the real message of a commit.

Next station: `delivery.py`. `resolver/resolve/hand_over.py` only brings it the binaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgpack

from ...kafka.targets import batch_bytes
from ...protocol import (
    FAST_DELIVERY,
    DiscardReason,
    Names,
    Outcome,
    Record,
    Resolution,
    Source,
    StoredHalf,
    check_record,
    commit_record,
    decode_half,
    decode_resolution,
    discarded_record,
    fitted,
)
from ...protocol.record import Headers
from ..step import Ended, QueueDecisions

#: Most bytes and decisions of a row: Spark moves rows whole.
_PART_BYTES = 4 * 1024 * 1024
_PART_DECISIONS = 10_000
#: More bytes than Kafka puts around the records of a batch.
_BATCH_BYTES = 128
#: Last bytes of a fast commit's resolution: the field `delivery` is the last.
_FAST_END = f'"delivery":"{FAST_DELIVERY}"}}'.encode()


class Output(NamedTuple):
    """A record that delivery writes. Its headers are a tuple, so that a set can hold it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int
    timestamp_ms: int

    @property
    def batch_bytes(self) -> int:
        """The bytes of a record batch that holds this one record, uncompressed."""
        return batch_bytes(self.key, self.value, self.headers)

    def cut(self, max_bytes: int) -> Output:
        """Return the record, cut to fit a record batch of `max_bytes`, and marked as cut."""
        record = Record(
            self.topic, self.key, self.value, list(self.headers), self.partition, self.timestamp_ms
        )
        return as_output(fitted(record, max_bytes - _BATCH_BYTES))


class DecisionRecords(NamedTuple):
    """One decision as the records that say it: a message, a resolution, or both.

    The message is the committed one, or a check, a discarded record, a refused one, a parked one.
    A commit keeps its half's headers in `half_headers`, packed: an undeliverable message or a
    parked one needs them. A rollback has a resolution alone. So has a fast commit: its producer
    has delivered the message.
    """

    message: Output | None
    resolution: Output | None = None
    half_headers: bytes | None = None

    @property
    def is_fast(self) -> bool:
        """Whether this is a fast commit."""
        if self.message is not None or self.resolution is None:
            return False
        return (self.resolution.value or b"").endswith(_FAST_END)

    def undeliverable(self, error: str, names: Names) -> DecisionRecords:
        """Return the decision of a commit that can't be delivered."""
        message, record = self.message, self.resolution
        if message is None or record is None or self.half_headers is None:
            raise ValueError("only a commit can be undeliverable")
        resolution = decode_resolution(record.value)
        headers: Headers = list(msgpack.unpackb(self.half_headers, use_list=False))
        half = decode_half(message.key, message.value, headers, names.prefix)
        stored_half = StoredHalf(
            resolution.queue, resolution.offset, resolution.stored_at, half, headers
        )
        given_up = discarded_record(
            stored_half, resolution.checks, DiscardReason.UNDELIVERABLE, error, names
        )
        resolution = resolution._replace(outcome=Outcome.UNDELIVERABLE, source=Source.DELIVERY)
        return DecisionRecords(
            as_output(given_up), as_output(resolution.to_record(names.resolution))
        )


class BatchName(NamedTuple):
    """The batch of the decisions, as `tx.resolution` names it."""

    batch_id: int
    query_id: str


def pack(
    decisions: QueueDecisions, names: Names, batch: BatchName, max_bytes: int
) -> Iterator[bytes]:
    """Pack decisions, in their order; a quarantined record may take `max_bytes`.

    The same decisions give the same bytes. There is at least one binary.
    """
    packer = msgpack.Packer()  # only one: making a packer costs more than packing with it
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


def unpack(packed: bytes) -> list[DecisionRecords]:
    """Undo `pack`."""
    # `_make` would count the fields of each: a tenth of the time, with up to 100,000 decisions.
    make = tuple.__new__
    return [
        make(
            DecisionRecords,
            (message and make(Output, message), record and make(Output, record), half_headers),
        )
        for message, record, half_headers in msgpack.unpackb(packed, use_list=False)
    ]


#: A decision before it is packed.
_Row = tuple[Record | None, Record | None, bytes | None]


def _rows(
    decisions: QueueDecisions,
    names: Names,
    batch: BatchName,
    max_bytes: int,
    packer: msgpack.Packer,
) -> Iterator[_Row]:
    for ended in decisions.ended:
        yield _ended(ended, names, batch, packer)
    for check in decisions.checks:
        yield check_record(check.stored_half, check.checks, names), None, None
    for refused in decisions.refused:
        yield refused.to_record(names, max_bytes), None, None


def _ended(ended: Ended, names: Names, batch: BatchName, packer: msgpack.Packer) -> _Row:
    stored_half = ended.stored_half
    resolution = _resolution(ended, batch).to_record(names.resolution)
    if ended.outcome is Outcome.COMMIT and not ended.is_fast:
        return commit_record(stored_half), resolution, packer.pack(stored_half.all_headers)
    if ended.reason is None:
        return None, resolution, None
    discarded = discarded_record(stored_half, ended.checks, ended.reason, ended.error, names)
    return discarded, resolution, None


def _size(row: _Row) -> int:
    """Return the approximate bytes of a decision; its half's headers stand for a message's."""
    record, _, half_headers = row
    if record is None:
        return 0
    return len(record.key or b"") + len(record.value or b"") + 2 * len(half_headers or b"")


def _resolution(ended: Ended, batch: BatchName) -> Resolution:
    stored_half, half = ended.stored_half, ended.stored_half.half
    return Resolution(  # by position: arguments by name take three times as long
        half.transaction_id,
        stored_half.queue,
        stored_half.offset,
        ended.outcome,
        ended.source,
        half.group,
        half.topic,
        ended.op_offset,
        ended.checks,
        ended.answered,
        half.born_at_ms,
        stored_half.stored_at_ms,
        ended.ended_at_ms,
        ended.decided_at_ms,
        batch.batch_id,
        batch.query_id,
        FAST_DELIVERY if ended.is_fast else None,
    )


def as_output(record: Record) -> Output:
    """Return a record as delivery's output."""
    return Output(
        record.topic,
        record.key,
        record.value,
        tuple(record.headers),
        record.partition,
        record.timestamp_ms,
    )
