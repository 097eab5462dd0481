"""The protocol: typed records and their Kafka encoding, used by both sides (docs/protocol.md)."""

from .check import Check, decode_check
from .half import Half, decode_half
from .names import Names, legal_group, legal_topic
from .op import Element, Op, TransactionStatus, decode_op, fence_record, is_fence
from .outputs import (
    DiscardReason,
    HalfAt,
    Outcome,
    QuarantineReason,
    Refused,
    Resolution,
    Source,
    check_record,
    commit_record,
    decode_resolution,
    discarded_record,
    fitted,
)
from .record import Headers, Record, StoredRecord, record_bytes

__all__ = [
    "Check",
    "DiscardReason",
    "Element",
    "Half",
    "HalfAt",
    "Headers",
    "Names",
    "Op",
    "Outcome",
    "QuarantineReason",
    "Record",
    "Refused",
    "Resolution",
    "Source",
    "StoredRecord",
    "TransactionStatus",
    "check_record",
    "commit_record",
    "decode_check",
    "decode_half",
    "decode_op",
    "decode_resolution",
    "discarded_record",
    "fence_record",
    "fitted",
    "is_fence",
    "legal_group",
    "legal_topic",
    "record_bytes",
]
