"""The elements of ops as columns: one row for each element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol import Op

Array = npt.NDArray[Any]


class StoredOp(NamedTuple):
    """A stored op."""

    offset: int
    stored_at_ms: int
    op: Op


def is_by_operator(stored_op: StoredOp) -> bool:
    """Whether an operator has written the op."""
    return stored_op.op.actor is not None


def is_by_application(stored_op: StoredOp) -> bool:
    """Whether the application has written the op by itself: it is no answer, and no operator's."""
    return not (stored_op.op.from_check or is_by_operator(stored_op))


@dataclass
class OpElements:
    """Elements in the order of (op offset, position).

    `op_index` is the index of the element's op in `ops`, `position` its position in that op.
    `ids` has the transaction id that the element names.
    """

    ops: list[StoredOp]
    op_index: Array
    position: Array
    half_offset: Array
    ids: Array

    @classmethod
    def of(cls, ops: list[StoredOp]) -> OpElements:
        """Line up the elements of ops."""
        elements = list(chain.from_iterable(stored_op.op.elements for stored_op in ops))
        op_index = np.repeat(np.arange(len(ops)), [len(stored_op.op.elements) for stored_op in ops])
        position = np.array([element.position for element in elements], np.int64)
        half_offset = np.array([element.offset for element in elements], np.int64)
        ids = np.empty(len(elements), object)
        ids[:] = [element.transaction_id for element in elements]
        offsets = np.array([stored_op.offset for stored_op in ops], np.int64)[op_index]
        return cls(ops, op_index, position, half_offset, ids).take(np.lexsort((position, offsets)))

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.half_offset)

    def take(self, where: Array) -> OpElements:
        """Return some of the elements; `where` is a mask or indices."""
        columns = (self.op_index, self.position, self.half_offset, self.ids)
        return OpElements(self.ops, *(column[where] for column in columns))

    def then(self, later: OpElements) -> OpElements:
        """Return the elements of both, these first."""
        pairs = (
            (self.op_index, later.op_index + len(self.ops)),
            (self.position, later.position),
            (self.half_offset, later.half_offset),
            (self.ids, later.ids),
        )
        return OpElements(self.ops + later.ops, *(np.concatenate(pair) for pair in pairs))

    def each(self, of_op: Callable[[StoredOp], Any], dtype: Any) -> Array:
        """Return a column of a value that all elements of an op share."""
        values = np.empty(len(self.ops), dtype)
        values[:] = [of_op(stored_op) for stored_op in self.ops]
        return values[self.op_index]
