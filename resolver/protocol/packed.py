"""Headers as one text: how they travel through Spark, to which an array of structs is dear.

It is what Spark's `to_json` makes of them: `[{"key": name, "value": base64 or null}, ...]`.
"""

from __future__ import annotations

from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterable

import orjson

from .record import Headers


def pack_headers(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Pack headers as Spark does it."""
    pairs = [
        {"key": name, "value": None if value is None else b64encode(value).decode()}
        for name, value in headers
    ]
    return orjson.dumps(pairs).decode()


def unpack_headers(packed: str | None) -> Headers:
    """Undo `pack_headers`; null means no headers."""
    if packed is None:
        return []
    return [
        (pair["key"], None if (value := pair["value"]) is None else a2b_base64(value))
        for pair in orjson.loads(packed)
    ]
