"""Fences: the resolver's own records in a queue's two partitions, which prove an order.

A fence in `tx.op` that was read back proves that all ops stored before it were read. A fence in
`tx.half` proves which halves there are: it is stored after the ops that it speaks of, and so behind
their halves.
"""

from __future__ import annotations

import hmac
from typing import Any

import orjson

from . import names as n
from .record import Headers, Record

_HEADERS: Headers = [(n.TAGS, n.FENCE_TAG)]


def fence_record(op_topic: str, queue: int) -> Record:
    """Return a fence of the op topic: an empty record that only moves the queue's watermark."""
    return Record(op_topic, None, b"", list(_HEADERS), queue)


def is_fence(value: bytes | None, headers: Headers | None) -> bool:
    """Whether a record of the op topic is a fence."""
    return not value and headers == _HEADERS


def half_fence_record(half_topic: str, queue: int, ops_end: int, secret: str) -> Record:
    """Return a fence of the half topic: the halves of all ops before `ops_end` are before it."""
    value = orjson.dumps({"ops": ops_end, "mac": _mac(queue, ops_end, secret)})
    return Record(half_topic, None, value, list(_HEADERS), queue)


def is_half_fence(headers: Headers | None) -> bool:
    """Whether a record of the half topic is a fence, whoever wrote it."""
    return headers == _HEADERS


def decode_half_fence(
    value: bytes | None, headers: Headers | None, queue: int, secret: str
) -> int | None:
    """Return the op offset that a fence of the half topic names; None for another record.

    Return 0 for a fence that was not made with `secret`: it may have been stored before the ops
    that it names, and proves nothing.
    """
    if not is_half_fence(headers):
        return None
    try:
        body: Any = orjson.loads(value or b"")
        ops_end, mac = body["ops"], body["mac"]
    except (KeyError, TypeError, ValueError):
        return 0
    # Convert nothing: anybody may write a fence, and a text of nested lists has no end.
    if type(ops_end) is not int or not isinstance(mac, str):
        return 0
    is_ours = hmac.compare_digest(mac.encode(), _mac(queue, ops_end, secret).encode())
    return ops_end if is_ours else 0


def _mac(queue: int, ops_end: int, secret: str) -> str:
    return hmac.digest(secret.encode(), f"{queue}:{ops_end}".encode(), "sha256").hex()
