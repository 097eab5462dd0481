"""Revocations: the resolver's records in `tx.op` after which a fast id can deliver nothing more.

The resolver first initialises the transactional id, which fences the producer. Only then does it
store the record. So all that the producer has delivered by this id is before it in the partition.
"""

from __future__ import annotations

import hmac
from typing import Any

import orjson

from . import names as n
from .record import Headers, Record

_HEADERS: Headers = [(n.TAGS, n.REVOKED_TAG)]


def revoked_record(op_topic: str, queue: int, fast_id: str, secret: str) -> Record:
    """Return the record that a fast id is revoked, for one op partition."""
    value = orjson.dumps({"fast": fast_id, "mac": _mac(queue, fast_id, secret)})
    return Record(op_topic, None, value, list(_HEADERS), queue)


def is_revoked(headers: Headers | None) -> bool:
    """Whether a record of the op topic says that an id is revoked, whoever wrote it."""
    return headers == _HEADERS


def decode_revoked(value: bytes | None, queue: int, secret: str) -> str | None:
    """Return the fast id of a record for which `is_revoked` holds.

    Return None for a record that was not made with `secret`: nobody may have fenced the producer.
    """
    try:
        body: Any = orjson.loads(value or b"")
        fast_id, mac = body["fast"], body["mac"]
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(fast_id, str) or not isinstance(mac, str):
        return None
    is_ours = hmac.compare_digest(mac.encode(), _mac(queue, fast_id, secret).encode())
    return fast_id if is_ours else None


def _mac(queue: int, fast_id: str, secret: str) -> str:
    return hmac.digest(secret.encode(), f"revoked:{queue}:{fast_id}".encode(), "sha256").hex()
