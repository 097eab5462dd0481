"""Headers packed into one binary: how they travel through Spark, which would copy each by itself.

Apart from the other modules, so that the producer and the agent need no msgpack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgpack

from .record import Headers


def pack_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Pack headers as a msgpack array of [name, value]."""
    return cast(bytes, msgpack.packb(list(headers), use_bin_type=True))


def unpack_headers(packed: bytes | None) -> Headers:
    """Undo `pack_headers`; null means no headers."""
    if packed is None:
        return []
    # Headers are a list, their pairs are tuples: a tuple of pairs equals no list of the same pairs.
    return list(cast(Headers, msgpack.unpackb(packed, use_list=False, raw=False) or ()))
