"""What must become of each record that was sent, known before anything is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from resolver.protocol import Names

from .aimed import DUPLICATE, ENDS, NOTHING, AimedOp
from .halves import Half

T = TypeVar("T")
#: A refused record (`topic:partition:offset`), and the element's position; None for all of it.
RefusedPart = tuple[str, "int | None"]


class End(NamedTuple):
    """How a transaction must end."""

    half: Half
    state: str
    op_offset: int


class Expectations:
    """The expected refusals and ends of a run; `queue:offset` names a half."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._half_at: dict[str, Half] = {}
        self.refusals: dict[RefusedPart, str] = {}
        self.ends: dict[str, End] = {}
        self.duplicates = 0

    def half(self, queue: int, offset: int, half: Half) -> None:
        """Take a half that was stored."""
        if half.refused:
            self.refusals[f"{self._names.half}:{queue}:{offset}", None] = "MALFORMED_HALF"
        else:
            self._half_at[f"{queue}:{offset}"] = half

    def no_op(self, queue: int, offset: int) -> None:
        """Take a record of the op topic that is none."""
        self.refusals[f"{self._names.op}:{queue}:{offset}", None] = "MALFORMED_OP"

    def op(self, queue: int, offset: int, op: AimedOp) -> None:
        """Take an op that was stored."""
        halves = iter(op.targets)
        for position, fate in enumerate(op.fates):
            if fate == ENDS:
                half_id = f"{queue}:{next(halves)}"
                self.ends[half_id] = End(self._half_at.pop(half_id), op.state, offset)
            elif fate == DUPLICATE:
                self.duplicates += 1
            elif fate != NOTHING:
                self.refusals[f"{self._names.op}:{queue}:{offset}", position] = fate

    def compare(
        self, refusals: Iterable[tuple[RefusedPart, str]], ended: Iterable[str]
    ) -> list[str]:
        """Return what differs, in words: nothing is to be refused or ended that must not be."""
        refused, ends = Counter(refusals), Counter(ended)
        differences = [
            *_differs("refused", Counter(self.refusals.items()), refused),
            *_differs("ended", Counter(self.ends.keys()), ends),
        ]
        return [*differences, *(f"not ended by any op: {half_id}" for half_id in self._half_at)]


def _differs(what: str, expected: Counter[T], observed: Counter[T]) -> list[str]:
    lacking, surplus = expected - observed, observed - expected
    return [f"not {what}: {entry}" for entry in lacking] + [
        f"{what}, and must not be (so often): {entry}" for entry in surplus
    ]
