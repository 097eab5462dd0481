"""Typed records of the protocol and their Kafka encoding, for producer and resolver.

docs/protocol.md describes them.
"""

from .check import Check, check_record, decode_check
from .claim import Act, Claim, decode_claim
from .discarded import DiscardReason, discarded_record
from .fence import (
    decode_half_fence,
    fence_record,
    half_fence_record,
    is_fence,
    is_half_fence,
)
from .half import Half, HalfId, StoredHalf, commit_record, decode_half
from .names import Names, legal_group, legal_topic
from .op import Element, Op, decode_op
from .parked import LANE_END, Release, decode_parked, parked_record, release_record
from .record import Headers, Record, StoredRecord, record_bytes
from .refused import QuarantineReason, Refused, fitted
from .resolution import (
    FAST_DELIVERY,
    Outcome,
    Resolution,
    Source,
    decode_resolution,
)
from .revoked import decode_revoked, is_revoked, revoked_record
from .status import TransactionStatus

__all__ = [
    "FAST_DELIVERY",
    "LANE_END",
    "Act",
    "Check",
    "Claim",
    "DiscardReason",
    "Element",
    "Half",
    "HalfId",
    "Headers",
    "Names",
    "Op",
    "Outcome",
    "QuarantineReason",
    "Record",
    "Refused",
    "Release",
    "Resolution",
    "Source",
    "StoredHalf",
    "StoredRecord",
    "TransactionStatus",
    "check_record",
    "commit_record",
    "decode_check",
    "decode_claim",
    "decode_half",
    "decode_half_fence",
    "decode_op",
    "decode_parked",
    "decode_resolution",
    "decode_revoked",
    "discarded_record",
    "fence_record",
    "fitted",
    "half_fence_record",
    "is_fence",
    "is_half_fence",
    "is_revoked",
    "legal_group",
    "legal_topic",
    "parked_record",
    "record_bytes",
    "release_record",
    "revoked_record",
]
