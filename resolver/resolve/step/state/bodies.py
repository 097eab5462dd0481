"""Messages of pending halves: chunks of at most 512 KB, written once, rewritten when mostly dead.

A larger value is slow to read and write in the state store. A single value for all pending halves
would be rewritten by each batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt

from ....protocol import Headers, record_bytes
from .head import SEGMENT
from .store import Store

CHUNK_BYTES = 512 * 1024
#: Most chunks kept in memory: ends may be scattered over all pending halves.
_IN_MEMORY = 64


class Body(NamedTuple):
    """A half as it was sent."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """The approximate bytes that the body takes in a chunk."""
        return record_bytes(self.key, self.value, self.headers)


class Bodies:
    """The chunks of a queue, each named by its first offset."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loaded: dict[int, dict[int, Body]] = {}

    def add(self, bodies: list[Body]) -> list[int]:
        """Write new bodies, in offset order; return the chunk of each.

        A chunk never crosses segments: its segment's rows alone tell which of its halves are alive.
        """
        chunks: list[int] = []
        start, size = 0, 0
        for position, body in enumerate(bodies):
            apart = body.offset // SEGMENT != bodies[start].offset // SEGMENT
            if position > start and (apart or size + body.size > CHUNK_BYTES):
                self._write(bodies[start:position])
                start, size = position, 0
            size += body.size
            chunks.append(bodies[start].offset)
        if bodies:
            self._write(bodies[start:])
        return chunks

    def get(self, chunk: int, offset: int) -> Body:
        """Return one body; asking chunk by chunk reads each chunk once."""
        return self._chunk(chunk)[offset]

    def keep(self, chunk: int, alive: npt.NDArray[np.int64]) -> None:
        """Drop a chunk without a live half; rewrite a chunk that is mostly dead."""
        if not len(alive):
            self._store.remove(_key(chunk))
            return
        bodies = self._chunk(chunk)
        if len(alive) * 2 < len(bodies):
            kept = [bodies[offset] for offset in alive.tolist()]
            self._store.put(_key(chunk), msgpack.packb(kept))

    def _write(self, bodies: list[Body]) -> None:
        self._store.put(_key(bodies[0].offset), msgpack.packb(bodies))

    def _chunk(self, chunk: int) -> dict[int, Body]:
        if chunk not in self._loaded:
            if len(self._loaded) == _IN_MEMORY:
                del self._loaded[next(iter(self._loaded))]
            rows = msgpack.unpackb(self._store.get(_key(chunk)) or b"\x90")
            self._loaded[chunk] = {row[0]: _body(*row) for row in rows}
        return self._loaded[chunk]


def _body(offset: int, key: bytes | None, value: bytes | None, headers: list[Any]) -> Body:
    return Body(offset, key, value, [(name, content) for name, content in headers])


def _key(chunk: int) -> str:
    return f"body/{chunk}"
