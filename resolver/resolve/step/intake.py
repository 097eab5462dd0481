"""A batch's records, decoded in offset order; a malformed record is refused with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import MalformedHalf, MalformedOp, ProtocolError
from ...protocol import (
    Headers,
    Names,
    QuarantineReason,
    Refused,
    StoredHalf,
    StoredRecord,
    decode_half,
    decode_half_fence,
    decode_op,
    decode_revoked,
    is_fence,
    is_revoked,
)
from ...protocol.policy import Policy, Refusals
from .op_elements import OpElements, StoredOp
from .pending import NewHalf
from .settings import StepSettings
from .state.head import SEGMENT, Head
from .state.settled import Settled

#: Least size of a refused element's record, in bytes.
_REFUSED_BYTES = 512


def decode_halves(
    halves: Sequence[StoredRecord],
    end: int,
    head: Head,
    settled: Settled,
    settings: StepSettings,
    fence_secret: str,
) -> tuple[list[NewHalf], list[Refused]]:
    """Decode halves, which were read up to `end`, in offset order; move the queue's head there.

    A half that is settled, as after a rebuild, is passed over. A half that the policy refuses stays
    pending: its commit becomes undeliverable, unless its producer has delivered the message.
    Fences are noted in `head.proved`.
    """
    new: list[NewHalf] = []
    refused: list[Refused] = []
    refusals = Refusals(Policy(settings.reject_transaction_message, settings.group_topics))
    for offset, stored_at, key, value, headers in halves:
        try:
            half = decode_half(key, value, _readable(headers, MalformedHalf), settings.topic_prefix)
        except MalformedHalf as error:
            ops_end = decode_half_fence(value, headers, head.number, fence_secret)
            if ops_end is not None:
                head.proved = max(head.proved, ops_end)
                continue
            source = f"{Names(settings.topic_prefix).half}:{head.number}:{offset}"
            reason = QuarantineReason.MALFORMED_HALF
            refused.append(Refused(source, None, reason, str(error), key, value, headers or []))
        else:
            stored_half = StoredHalf(head.number, offset, stored_at, half, headers or [])
            new.append(_new_half(stored_half, refusals[half.group, half.topic], settings))
    _advance(head, halves, end)
    codes = settled.look_up(np.array([half.stored_half.offset for half in new], np.int64))
    return [half for half, code in zip(new, codes.tolist(), strict=True) if not code], refused


class DecodedOp(NamedTuple):
    """A record of the op topic.

    `stored_op` is its op: None for a fence, a revocation or a malformed record. `refused` has a
    malformed record, or the malformed elements of the op, each with its reason. `revoked` is the
    fast id that a record of ours says is revoked.
    """

    offset: int
    stored_at_ms: int
    stored_op: StoredOp | None
    refused: list[Refused]
    revoked: str | None = None


class DecodedOps(NamedTuple):
    """Records of the op topic, and the elements of the ops among them."""

    records: list[DecodedOp]
    elements: OpElements

    @classmethod
    def of(cls, records: list[DecodedOp]) -> DecodedOps:
        """Line up the elements of the ops among these records."""
        stored_ops = [record.stored_op for record in records if record.stored_op]
        return cls(records, OpElements.of(stored_ops))

    def before(self, op_index: int | None) -> DecodedOps:
        """Return the ops before `elements.ops[op_index]`; all of them for None."""
        if op_index is None:
            return self
        offset = self.elements.ops[op_index].offset
        kept = [record for record in self.records if record.offset < offset]
        return DecodedOps(kept, self.elements.take(self.elements.op_index < op_index))


def decode_ops(
    ops: Sequence[StoredRecord], queue: int, settings: StepSettings, fence_secret: str
) -> list[DecodedOp]:
    """Decode ops, and stop at as many elements as one batch could refuse.

    A revocation counts if it was made with `fence_secret`. Otherwise the producer may not be
    fenced, and may still deliver.
    """
    read: list[DecodedOp] = []
    topic = Names(settings.topic_prefix).op
    remaining_elements = max(1, settings.max_output_bytes // _REFUSED_BYTES)
    for record in ops:
        if remaining_elements <= 0:
            break
        if is_revoked(record.headers):
            fast_id = decode_revoked(record.value, queue, fence_secret)
            read.append(DecodedOp(record.offset, record.stored_at_ms, None, [], fast_id))
            continue
        decoded = _decode_op(record, f"{topic}:{queue}:{record.offset}")
        stored_op = decoded.stored_op
        remaining_elements -= len(decoded.refused)
        remaining_elements -= len(stored_op.op.elements) if stored_op else 0
        read.append(decoded)
    return read


def _decode_op(record: StoredRecord, source: str) -> DecodedOp:
    offset, stored_at, key, value, headers = record
    if is_fence(value, headers):
        return DecodedOp(offset, stored_at, None, [])
    reason = QuarantineReason.MALFORMED_OP
    try:
        op = decode_op(value, _readable(headers, MalformedOp))
    except MalformedOp as error:
        refused = [Refused(source, None, reason, str(error), key, value, headers or [])]
        return DecodedOp(offset, stored_at, None, refused)
    about = op.about().to_value() if op.malformed else None  # one value for all refusals
    refused = [
        Refused(source, position, reason, error_text, None, about, [])
        for position, error_text in op.malformed
    ]
    return DecodedOp(offset, stored_at, StoredOp(offset, stored_at, op), refused)


def _readable(headers: Headers | None, malformed: type[ProtocolError]) -> Headers:
    if headers is None:
        raise malformed("its headers can't be read: the name of one is not UTF-8")
    return headers


def _new_half(stored_half: StoredHalf, refusal: str, settings: StepSettings) -> NewHalf:
    own_ms = min((stored_half.half.immunity_seconds or 0) * 1_000, settings.file_reserved_ms)
    deadline_ms = stored_half.stored_at_ms + (own_ms or settings.transaction_timeout_ms)
    return NewHalf(stored_half, own_ms, deadline_ms, refusal)


def _advance(head: Head, halves: Sequence[StoredRecord], end: int) -> None:
    known, head.next_half = head.next_half, max(head.next_half, end)
    if not halves:
        return
    if halves[0].offset < known:
        raise ValueError(
            f"halves of queue {head.number} were read up to {known}, and "
            f"{halves[0].offset} comes again: its state is not the one that the batch began with"
        )
    # After a rebuild the first pending half may be below the first half that had ended.
    first = halves[0].offset // SEGMENT
    head.settled_from = min(first, first if head.settled_from is None else head.settled_from)
