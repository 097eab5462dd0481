"""The records of an operation: ops to settle and ask, halves to resume, copies to replay.

A message is taken from the ledger: its half, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from ..errors import OperationError
from ..protocol import (
    Act,
    Element,
    Headers,
    Names,
    Op,
    Record,
    StoredHalf,
    commit_record,
    decode_half,
)
from ..protocol.names import FAST, MAX_OP_ELEMENTS, RESUMES
from ..views import HalfId, Ledger
from .erasure import is_erased
from .operation import Operation

Row = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HALVES = """
    SELECT h.queue, h.offset, h.transaction_id, h.group, h.topic, h.stored_at, h.key, h.value,
           h.headers
    FROM half h
    WHERE h.queue = {queue} AND h.offset BETWEEN {first} AND {last} AND h.offset IN ({offsets})
"""


def records_of(
    operation: Operation, halves: Sequence[HalfId], ledger: Ledger, names: Names
) -> list[Record]:
    """Return the records by which an operation acts on these transactions, in their order."""
    rows = _read(operation, ledger, halves)
    if operation.act in (Act.SETTLE, Act.ASK):
        return _ops(operation, rows, names)
    if operation.act is Act.RESUME:
        return [_half_again(row, names) for row in rows]
    return [_copy(row, operation.detail, names) for row in rows]


def _ops(operation: Operation, rows: Sequence[Row], names: Names) -> list[Record]:
    """Return ops, each for many halves of one queue and group."""
    records = []
    ordered = sorted(rows, key=lambda row: (row["queue"], row["group"], row["offset"]))
    for (queue, group), grouped in groupby(ordered, key=lambda row: (row["queue"], row["group"])):
        group_rows = list(grouped)
        for first in range(0, len(group_rows), MAX_OP_ELEMENTS):
            elements = tuple(
                Element(position, row["offset"], row["transaction_id"])
                for position, row in enumerate(group_rows[first : first + MAX_OP_ELEMENTS])
            )
            op = Op(operation.state, group, elements, False, operation.reason, operation.actor)
            records.append(op.to_record(names.op, queue))
    return records


def _half_again(row: Row, names: Names) -> Record:
    """Return the message as a new half in the same queue, which names the old one."""
    # Leave the fast id out: the resolver delivers the new half, not its former producer.
    headers = [header for header in _headers(row) if header[0] != FAST]
    # Replace the RESUMES of a half that was itself resumed: it names the half before that.
    if headers and headers[-1][0] == RESUMES:
        headers.pop()
    headers.append((RESUMES, str(HalfId(row["queue"], row["offset"])).encode()))
    return Record(names.half, row["key"], row["value"], headers, row["queue"])


def _copy(row: Row, topic: str, names: Names) -> Record:
    """Return the commit once more, for a topic, with the headers that identify it.

    In its own topic it keeps its partition. In another topic its key chooses the partition.
    """
    half = decode_half(row["key"], row["value"], _headers(row), names.prefix)
    stored_ms = (row["stored_at"] - _EPOCH).total_seconds() * 1000
    stored_half = StoredHalf(row["queue"], row["offset"], round(stored_ms), half, _headers(row))
    commit = commit_record(stored_half)
    partition = commit.partition if topic == half.topic else -1
    return commit._replace(topic=topic, partition=partition)


def _headers(row: Row) -> Headers:
    return [(header["key"], header["value"]) for header in row["headers"] or []]


def _read(operation: Operation, ledger: Ledger, halves: Sequence[HalfId]) -> list[Row]:
    """Return the rows of halves, in the order given; raises `OperationError` if any is gone."""
    by_id: dict[HalfId, Row] = {}
    for queue, of_queue in groupby(sorted(halves), key=lambda half: half.queue):
        offsets = [half.offset for half in of_queue]
        bounds = {"queue": queue, "first": offsets[0], "last": offsets[-1]}
        sql = _HALVES.format(**bounds, offsets=", ".join(map(str, offsets)))
        by_id |= {HalfId(row["queue"], row["offset"]): row for row in ledger.sql(sql).to_pylist()}
    gone = [str(half) for half in halves if half not in by_id]
    if gone:
        raise OperationError(
            f"half {gone[0]} is no longer in {ledger.tables}, so its message is gone; "
            f"{len(gone)} of this chunk are",
            remedy="choose again without them",
        )
    erased = [str(half) for half in halves if is_erased(by_id[half])]
    if erased and operation.act in (Act.RESUME, Act.REPLAY):
        raise OperationError(
            f"the message of {erased[0]} was erased; {len(erased)} of this chunk were",
            remedy="choose again without them",
        )
    return [by_id[half] for half in halves]
