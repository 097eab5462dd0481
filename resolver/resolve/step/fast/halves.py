"""Fast halves: pending halves that their producers may commit themselves, by their fast ids.

While a half's id is not revoked, its message may become visible at any time. So all other ends of
it wait, and nobody is asked about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ....protocol import Element, Op, TransactionStatus
from ..op_elements import StoredOp

_Array = npt.NDArray[Any]

#: Stands for no fast id: the first entry of `FastHalves.ids`.
_NO_ID = ""


class WaitingEnd(NamedTuple):
    """An end that waits for the revocation of its half's fast id, as the element of its op."""

    half: int
    op_offset: int
    position: int
    stored_at_ms: int
    state: str
    from_check: bool
    actor: str | None

    @classmethod
    def of(cls, stored_op: StoredOp, position: int, half: int) -> WaitingEnd:
        """Return what is kept of an op: nothing in it grows with its other elements."""
        op = stored_op.op.about()
        op_fields = (op.state.value, op.from_check, op.actor)
        return cls(half, stored_op.offset, position, stored_op.stored_at_ms, *op_fields)

    def op(self, transaction_id: str, group: str) -> StoredOp:
        """Return the op again, with this element alone."""
        elements = (Element(self.position, self.half, transaction_id),)
        state = TransactionStatus(self.state)
        op = Op(state, group, elements, self.from_check, None, self.actor)
        return StoredOp(self.op_offset, self.stored_at_ms, op)


class FastHalves:
    """The fast facts of pending halves as columns, a row for each as in the table of `Pending`.

    `id` is the index of a half's fast id in `ids`, 0 without one. `gave_up` says that the producer
    has given up to commit the half fast. `waiting` has the ends that wait, by half offset.
    """

    def __init__(self) -> None:
        self.ids = [_NO_ID]
        self.id: _Array = np.zeros(0, np.int64)
        self.gave_up: _Array = np.zeros(0, np.bool_)
        self.waiting: dict[int, WaitingEnd] = {}
        self._indices = {_NO_ID: 0}

    def append(self, rows: int, packed: list[Any] | None) -> None:
        """Add the facts of a segment's rows; `rows` is their number.

        `packed` is what `pack` has returned: None if no row has a fast id.
        """
        if packed is None:
            self._append(np.zeros(rows, np.int64), np.zeros(rows, np.bool_))
            return
        ids, packed_indices, gave_up, waiting = packed
        of_segment = np.array([self._index(fast_id) for fast_id in ids], np.int64)
        given_up = np.zeros(rows, np.bool_)
        given_up[gave_up] = True
        self._append(of_segment[np.frombuffer(packed_indices, np.uint16)], given_up)
        self.waiting |= {end[0]: WaitingEnd(*end) for end in waiting}

    def append_new(self, ids: list[str | None]) -> None:
        """Add the fast ids of this batch's halves."""
        indices = np.zeros(len(ids), np.int64)
        if any(ids):
            indices[:] = [self._index(fast_id or _NO_ID) for fast_id in ids]
        self._append(indices, np.zeros(len(ids), np.bool_))

    def pack(self, rows: _Array, offsets: Iterable[int]) -> tuple[Any, ...] | None:
        """Return the facts of a segment's rows, which have these offsets; None if there are none.

        The segment has its own list of ids: a row names its id by two bytes.
        """
        if not self.id[rows].any():
            return None
        used, indices = np.unique(self.id[rows], return_inverse=True)
        gave_up = np.flatnonzero(self.gave_up[rows]).tolist()
        waiting = [self.waiting[offset] for offset in offsets if offset in self.waiting]
        ids = [self.ids[index] for index in used.tolist()]
        return ids, indices.astype(np.uint16).tobytes(), gave_up, waiting

    def _append(self, indices: _Array, gave_up: _Array) -> None:
        self.id = np.concatenate((self.id, indices))
        self.gave_up = np.concatenate((self.gave_up, gave_up))

    def _index(self, fast_id: str) -> int:
        index = self._indices.setdefault(fast_id, len(self.ids))
        if index == len(self.ids):
            self.ids.append(fast_id)
        return index
