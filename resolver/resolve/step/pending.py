"""Pending halves: one row each, kept by segments of half offsets, apart from their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt

from ...protocol import StoredHalf, decode_half
from ...protocol.names import HALF_HEADERS
from .fast.halves import FastHalves
from .op_elements import Array
from .state.bodies import Bodies, Body
from .state.head import SEGMENT, Head, PendingSegment
from .state.store import Store

Indices = npt.NDArray[np.int64]

#: A pending half's row, with times in ms. `immunity` is the half's own, 0 without one.
#: `asked` says that a check is out, unanswered. `streak` counts unanswered checks in a row. After
#: an extra check it holds the complement of the count (`~count`). `chunk` is the stored chunk that
#: has its message, -1 if it is in memory alone. `size` is a stored message's, in bytes.
ROW = np.dtype(
    [
        ("offset", np.int64),
        ("stored_at", np.int64),
        ("deadline", np.int64),
        ("immunity", np.int64),
        ("chunk", np.int64),
        ("size", np.int64),
        ("checks", np.int32),
        ("answered", np.int32),
        ("streak", np.int32),
        ("asked", np.bool_),
    ]
)


class NewHalf(NamedTuple):
    """A half of this batch; `refusal` says why its message can't be delivered, if it can't."""

    stored_half: StoredHalf
    immunity_ms: int
    deadline_ms: int
    refusal: str = ""


class Pending:
    """The pending halves that concern a step, as one table in offset order."""

    def __init__(self, store: Store, head: Head, prefix: str) -> None:
        self._store = store
        self._head = head
        self._prefix = prefix
        self._bodies = Bodies(store)
        self._new: dict[int, NewHalf] = {}
        self.rows: Array = np.zeros(0, ROW)
        self.ids: Array = np.zeros(0, object)
        self.groups: Array = np.zeros(0, object)
        #: Why the policy refused a half when it was read, by half offset. Later policies don't
        #: change it.
        self.refusals: dict[int, str] = {}
        self.fast = FastHalves()
        self.alive: Array = np.zeros(0, np.bool_)
        self.changed: Array = np.zeros(0, np.bool_)

    def load(self, segments: Iterable[int], new: list[NewHalf]) -> None:
        """Put the segments' rows and this batch's halves, both in offset order, into one table."""
        rows, ids, groups = [], [], []
        for segment in sorted(set(segments) & self._head.pending.keys()):
            packed_rows, its_ids, its_groups, *more = msgpack.unpackb(
                self._store.get(_key(segment))
            )
            refused = more[0] if more else {}
            rows.append(np.frombuffer(packed_rows, ROW))
            ids += its_ids
            groups += its_groups
            for refusal, offsets in refused.items():
                self.refusals |= dict.fromkeys(offsets, refusal)
            self.fast.append(len(its_ids), more[1] if len(more) > 1 else None)
        old = len(ids)
        rows.append(_rows(new))
        ids += [half.stored_half.half.transaction_id for half in new]
        groups += [half.stored_half.half.group for half in new]
        self.fast.append_new([half.stored_half.half.fast_id for half in new])
        self._new = {half.stored_half.offset: half for half in new}
        self.refusals |= {half.stored_half.offset: half.refusal for half in new if half.refusal}
        self.rows, self.ids, self.groups = np.concatenate(rows), _objects(ids), _objects(groups)
        self.alive = np.ones(len(ids), np.bool_)
        self.changed = np.arange(len(ids)) >= old

    def find(self, offsets: Array) -> Indices:
        """Join: return the row of each half offset; -1 if the half is not pending."""
        if not len(self.rows):
            return np.full(len(offsets), -1)
        row = np.searchsorted(self.rows["offset"], offsets)
        row[row == len(self.rows)] = 0
        return np.where(self.rows["offset"][row] == offsets, row, -1)

    def stored_bytes(self, rows: Indices) -> Array:
        """Return each row's message size in bytes; 0 for no row (-1) and this batch's halves."""
        sizes = np.zeros(len(rows), np.int64)
        is_row = rows >= 0
        picked = self.rows[rows[is_row]]
        sizes[is_row] = np.where(picked["chunk"] >= 0, picked["size"], 0)
        return sizes

    def end(self, rows: Indices) -> None:
        """Mark rows as ended; `save` leaves them out."""
        self.alive[rows] = False

    def halves(self, rows: Indices, is_fast: Array | None = None) -> list[StoredHalf]:
        """Return the halves of the rows; halves of earlier batches are read from the state.

        Of those, one that `is_fast` comes without key and body: its producer has delivered it. A
        batch's limit does not count such messages, so they are not loaded.
        """
        if is_fast is None:
            is_fast = np.zeros(len(rows), np.bool_)
        by_chunk = np.argsort(self.rows["chunk"][rows], kind="stable")
        picked = self.rows[rows[by_chunk]]
        offsets, chunks = picked["offset"].tolist(), picked["chunk"].tolist()
        stored = picked["stored_at"].tolist()
        bare = is_fast[by_chunk].tolist()
        read = (
            self._new[offset].stored_half
            if chunk < 0
            else self._decode(offset, chunk, stored_at, is_bare)
            for offset, chunk, stored_at, is_bare in zip(offsets, chunks, stored, bare, strict=True)
        )
        halves = dict(zip(by_chunk.tolist(), read, strict=True))
        return [halves[index] for index in range(len(rows))]

    def least_deadline(self) -> int | None:
        """Return the least deadline of all pending halves, after `save`."""
        return min((entry.least_deadline for entry in self._head.pending.values()), default=None)

    def save(self) -> None:
        """Write the segments in which a row came, went or changed."""
        stored = self.rows["chunk"] >= 0
        touched = np.where(self.alive, self.changed, stored)
        self._keep_new_bodies()
        self._drop_dead_bodies()
        segments = self.rows["offset"] // SEGMENT
        for segment in np.unique(segments[touched]).tolist():
            self._save_segment(segment, np.flatnonzero((segments == segment) & self.alive))

    def _save_segment(self, segment: int, rows: Indices) -> None:
        if not len(rows):
            self._store.remove(_key(segment))
            self._head.pending.pop(segment, None)
            return
        kept = self.rows[rows]
        packed = (kept.tobytes(), self.ids[rows].tolist(), self.groups[rows].tolist())
        # Few segments have refusals or fast halves. The others keep the form of older versions,
        # whose checkpoints can be read still.
        offsets = kept["offset"].tolist()
        refused, fast = self._refused(offsets), self.fast.pack(rows, offsets)
        more = (refused, fast) if fast else (refused,) if refused else ()
        self._store.put(_key(segment), msgpack.packb((*packed, *more)))
        self._head.pending[segment] = PendingSegment(len(rows), int(kept["deadline"].min()))

    def _refused(self, offsets: list[int]) -> dict[str, list[int]]:
        """Return the half offsets of each refusal: few texts, and maybe many halves."""
        refused: dict[str, list[int]] = {}
        if self.refusals:
            for offset in offsets:
                if refusal := self.refusals.get(offset):
                    refused.setdefault(refusal, []).append(offset)
        return refused

    def _keep_new_bodies(self) -> None:
        kept = np.flatnonzero((self.rows["chunk"] < 0) & self.alive)
        bodies = []
        for offset in self.rows["offset"][kept].tolist():
            stored_half = self._new[offset].stored_half
            half = stored_half.half
            bodies.append(Body(offset, half.key, half.body, stored_half.all_headers))
        self.rows["size"][kept] = [body.size for body in bodies]
        self.rows["chunk"][kept] = self._bodies.add(bodies)

    def _drop_dead_bodies(self) -> None:
        chunks = self.rows["chunk"]
        chunks_with_dead = np.unique(chunks[(chunks >= 0) & ~self.alive])
        for chunk in chunks_with_dead.tolist():
            self._bodies.keep(chunk, self.rows["offset"][(chunks == chunk) & self.alive])

    def _decode(self, offset: int, chunk: int, stored_at: int, is_bare: bool) -> StoredHalf:
        _, key, value, headers = self._bodies.get(chunk, offset)
        if is_bare:
            key, value = None, None
            headers = [header for header in headers if header[0] in HALF_HEADERS]
        half = decode_half(key, value, headers, self._prefix)
        return StoredHalf(self._head.number, offset, stored_at, half, headers)


def _rows(new: list[NewHalf]) -> Array:
    rows = np.zeros(len(new), ROW)
    rows["offset"] = [half.stored_half.offset for half in new]
    rows["stored_at"] = [half.stored_half.stored_at_ms for half in new]
    rows["deadline"] = [half.deadline_ms for half in new]
    rows["immunity"] = [half.immunity_ms for half in new]
    rows["chunk"] = -1
    return rows


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _key(segment: int) -> str:
    return f"pending/{segment}"
