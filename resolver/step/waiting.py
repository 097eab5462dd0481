"""Ends that were read before their halves: they wait, in chunks, until the half has been read."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from ..protocol import Element, Names, Op, QuarantineReason, Refused, TransactionStatus
from .ends import Ends, OpAt
from .queue import Queue, WaitingChunk
from .settings import StepSettings
from .store import Store

_CHUNK_ELEMENTS = 4_096
_NO_HALF = "no half at offset {half} of this queue: "
_GIVEN_UP = _NO_HALF + "none came in the time in which it had to"
_TOO_MANY = _NO_HALF + "not read yet, and as many ends wait as max_waiting_ops allows"


class Waiting:
    """The waiting ends of a queue."""

    def __init__(self, store: Store, queue: Queue, settings: StepSettings) -> None:
        self._store = store
        self._queue = queue
        self._settings = settings

    def take_due(self) -> list[OpAt]:
        """Take out the ops of chunks in which an end waits no longer, to be judged once more."""
        queue = self._queue
        ops: list[OpAt] = []
        for chunk, entry in list(queue.waiting.items()):
            if entry.least_half < queue.next_half or self._overdue(entry.oldest_stored_at):
                ops += self._take(chunk)
        return ops

    def put(self, ends: Ends) -> list[Refused]:
        """Let ends wait; return those that waited too long, or are too many."""
        stored_at = ends.each(lambda at: at.stored_at_ms, np.int64)
        overdue = stored_at < self._oldest_allowed()
        refused = self._refuse(ends.take(overdue), _GIVEN_UP)
        ends = ends.take(~overdue)
        excess = self.count + len(ends) - self._settings.max_waiting_ops
        if excess > 0:
            ends, refused_now = self._refuse_newest(ends, excess)
            refused += refused_now
        self._write(ends.regrouped())
        return refused

    @property
    def count(self) -> int:
        """How many ends wait."""
        return sum(entry.ends for entry in self._queue.waiting.values())

    def first_expiry(self) -> int | None:
        """Return when the first waiting end will have waited too long, by the clock alone."""
        oldest = min((at.oldest_stored_at for at in self._queue.waiting.values()), default=None)
        return None if oldest is None else oldest + self._settings.file_reserved_ms + 1

    def _overdue(self, stored_at: int) -> bool:
        return stored_at < self._oldest_allowed()

    def _oldest_allowed(self) -> int:
        """Return when an end must have been stored at least: its half was stored before it."""
        by_halves = self._queue.latest_half_stored_at - self._settings.broker_clock_skew_ms
        return max(by_halves, self._queue.now - self._settings.file_reserved_ms)

    def _refuse_newest(self, ends: Ends, excess: int) -> tuple[Ends, list[Refused]]:
        """Refuse the newest, those that point farthest ahead: it is they that may be made up."""
        newest = np.flatnonzero(ends.each(lambda at: not at.waited, np.bool_))
        farthest = newest[np.argsort(ends.half[newest], kind="stable")][-excess:]
        refused = np.zeros(len(ends), np.bool_)
        refused[farthest] = True
        return ends.take(~refused), self._refuse(ends.take(refused), _TOO_MANY)

    def _refuse(self, ends: Ends, error: str) -> list[Refused]:
        topic = Names(self._settings.topic_prefix).op
        return ends.refused(QuarantineReason.UNKNOWN_HALF, error, topic, self._queue.number)

    def _take(self, chunk: int) -> list[OpAt]:
        packed = self._store.get(_key(chunk))
        self._store.remove(_key(chunk))
        del self._queue.waiting[chunk]
        return [_unpack(entry) for entry in msgpack.unpackb(packed)]

    def _write(self, ops: list[OpAt]) -> None:
        """Write ops, together with those of the last chunk as long as it is not full."""
        last = max(self._queue.waiting, default=0)
        if ops and last and self._queue.waiting[last].ends < _CHUNK_ELEMENTS:
            ops = self._take(last) + ops
        chunk: list[OpAt] = []
        count = 0
        for at in ops:
            chunk.append(at)
            count += len(at.op.elements)
            if count >= _CHUNK_ELEMENTS:
                self._write_chunk(chunk)
                chunk, count = [], 0
        if chunk:
            self._write_chunk(chunk)

    def _write_chunk(self, ops: list[OpAt]) -> None:
        number = max(self._queue.waiting, default=0) + 1
        elements = [element for at in ops for element in at.op.elements]
        self._store.put(_key(number), msgpack.packb([_pack(at) for at in ops]))
        self._queue.waiting[number] = WaitingChunk(
            ends=len(elements),
            least_half=min(element.offset for element in elements),
            oldest_stored_at=min(at.stored_at_ms for at in ops),
        )


def _pack(at: OpAt) -> list[object]:
    op = at.op
    kept = (op.state.value, op.group, op.elements, op.from_check, op.actor)
    return [at.offset, at.stored_at_ms, kept]


def _unpack(packed: list[Any]) -> OpAt:
    offset, stored_at, (state, group, elements, from_check, actor) = packed
    its = tuple(Element(*element) for element in elements)
    op = Op(TransactionStatus(state), group, its, from_check, actor=actor)
    return OpAt(offset, stored_at, op, waited=True)


def _key(chunk: int) -> str:
    return f"waiting/{chunk}"
