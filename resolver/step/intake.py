"""A batch's records, decoded in offset order; what is malformed is refused with its reason."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..errors import MalformedHalf, MalformedOp
from ..protocol import (
    HalfAt,
    Names,
    QuarantineReason,
    Refused,
    decode_half,
    decode_op,
    is_fence,
)
from ..protocol.packed import unpack_headers
from .bodies import Body
from .ends import OpAt
from .pending import NewHalf
from .permissions import Permissions
from .queue import SEGMENT, Queue
from .settings import StepSettings
from .settled import Settled

#: offset, stored_at (ms), key, value, packed headers
_Row = tuple[int, int, bytes | None, bytes | None, str | None]

_REJECTED = "new transactions are refused while reject_transaction_message is set"


def read_halves(
    halves: pd.DataFrame, queue: Queue, settled: Settled, settings: StepSettings
) -> tuple[list[NewHalf], list[Refused]]:
    """Decode halves; one that is settled already, as after a rebuild, is passed over."""
    new: list[NewHalf] = []
    refused: list[Refused] = []
    permissions = Permissions(settings.group_topics)
    for offset, stored_at, key, value, packed in _in_order(halves):
        headers = unpack_headers(packed)
        try:
            half = decode_half(key, value, headers, settings.topic_prefix)
        except MalformedHalf as error:
            reason, said = QuarantineReason.MALFORMED_HALF, str(error)
        else:
            rejected = settings.reject_transaction_message
            said = _REJECTED if rejected else permissions[half.group, half.topic]
            if not said:
                at = HalfAt(queue.number, offset, stored_at, half, headers)
                new.append(_pending(at, packed or "[]", settings))
                continue
            reason = QuarantineReason.NO_PERMISSION
        source = f"{Names(settings.topic_prefix).half}:{queue.number}:{offset}"
        refused.append(Refused(source, None, reason, said, key, value, headers))
    _advance(queue, halves)
    codes = settled.look_up(np.array([half.at.offset for half in new], np.int64))
    return [half for half, code in zip(new, codes.tolist(), strict=True) if not code], refused


def read_ops(
    ops: pd.DataFrame, queue: Queue, settings: StepSettings
) -> tuple[list[OpAt], list[Refused]]:
    """Decode ops; each moves the queue's watermark, fences and malformed ones too."""
    read: list[OpAt] = []
    refused: list[Refused] = []
    topic = Names(settings.topic_prefix).op
    for offset, stored_at, key, value, packed in _in_order(ops):
        headers = unpack_headers(packed)
        if is_fence(value, headers):
            continue
        source = f"{topic}:{queue.number}:{offset}"
        reason = QuarantineReason.MALFORMED_OP
        try:
            op = decode_op(value, headers)
        except MalformedOp as error:
            refused.append(Refused(source, None, reason, str(error), key, value, headers))
            continue
        read.append(OpAt(offset, stored_at, op, headers, value))
        for position, said in op.malformed:
            refused.append(Refused(source, position, reason, said, None, value, headers))
    if len(ops):
        queue.watermark = max(queue.watermark or 0, int(ops["stored_at"].max()))
    return read, refused


def _in_order(records: pd.DataFrame) -> Iterator[_Row]:
    if not len(records):
        return iter(())
    order = np.argsort(records["offset"].to_numpy(), kind="stable")
    columns = ("offset", "stored_at", "key", "value", "headers")
    return zip(*(records[name].to_numpy()[order].tolist() for name in columns), strict=True)


def _pending(at: HalfAt, packed: str, settings: StepSettings) -> NewHalf:
    own = min((at.half.immunity_seconds or 0) * 1_000, settings.file_reserved_ms)
    return NewHalf(
        at=at,
        body=Body(at.offset, at.half.key, at.half.body, packed),
        immunity_ms=own,
        deadline_ms=at.stored_at_ms + (own or settings.transaction_timeout_ms),
    )


def _advance(queue: Queue, halves: pd.DataFrame) -> None:
    if not len(halves):
        return
    offsets = halves["offset"]
    # After a rebuild the first half that pends may be below the first that had ended.
    first = int(offsets.min()) // SEGMENT
    queue.settled_from = min(first, first if queue.settled_from is None else queue.settled_from)
    queue.next_half = max(queue.next_half, int(offsets.max()) + 1)
    latest = int(halves["stored_at"].max())
    queue.latest_half_stored_at = max(queue.latest_half_stored_at, latest)
