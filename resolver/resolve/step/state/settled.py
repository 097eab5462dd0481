"""Outcomes of ended transactions: two bits per half offset, forgotten segment by segment.

A third bit says that a half was committed fast. It is kept only in segments that have such a half:
the others keep the form of older versions.

`settle_outcomes` takes the stored outcomes with which a rebuild starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ....protocol import Outcome
from .head import SEGMENT, Head
from .store import Changes, Store

Codes = npt.NDArray[np.uint8]
HalfOffsets = npt.NDArray[np.int64]

NONE, COMMIT, ROLLBACK, DISCARD = range(4)
#: Mask of the outcome in a code, and the bit of a half whose producer has delivered it.
OUTCOME, FAST = 3, 4
#: An undeliverable message was committed by its application; a rebuild reads it as committed.
CODES = {
    Outcome.COMMIT: COMMIT,
    Outcome.ROLLBACK: ROLLBACK,
    Outcome.DISCARD: DISCARD,
    Outcome.UNDELIVERABLE: COMMIT,
}
#: Most segments that one step forgets, so that a wide gap doesn't hold up a batch.
_FORGET_AT_ONCE = 1_000
_TIME_BYTES = 8
_OUTCOME_BYTES = SEGMENT // 4


class Settled:
    """The outcomes of a queue."""

    def __init__(self, store: Store, head: Head) -> None:
        self._store = store
        self._head = head
        self._codes: dict[int, Codes] = {}
        self._changed: set[int] = set()

    def look_up(self, offsets: HalfOffsets) -> Codes:
        """Return each half offset's code: `NONE` for a half that was not read, or is forgotten.

        A code is an outcome, with the bit `FAST` where the producer has delivered the message.
        """
        codes = np.zeros(len(offsets), np.uint8)
        segments = offsets // SEGMENT
        kept = (segments >= (self._head.settled_from or 0)) & (offsets < self._head.next_half)
        for segment in np.unique(segments[kept]).tolist():
            where = kept & (segments == segment)
            codes[where] = self._segment(segment)[offsets[where] % SEGMENT]
        return codes

    def settle(self, offsets: HalfOffsets, codes: Codes) -> None:
        """Store the codes of ended transactions."""
        segments = offsets // SEGMENT
        for segment in np.unique(segments).tolist():
            where = segments == segment
            self._segment(segment)[offsets[where] % SEGMENT] = codes[where]
            self._changed.add(segment)
        if len(offsets):
            self._reach(int(segments.min()))

    def save(self, now: int) -> None:
        """Write the segments in which a transaction ended."""
        for segment in self._changed:
            packed = _pack(self._codes[segment])
            self._store.put(_key(segment), now.to_bytes(_TIME_BYTES, "big") + packed)

    def forget(self, now: int, reserved_ms: int) -> None:
        """Drop segments, the oldest first, in which nothing ended within `reserved_ms`."""
        head = self._head
        if head.settled_from is None:
            return
        last = min(head.next_half // SEGMENT, head.settled_from + _FORGET_AT_ONCE)
        while head.settled_from < last and head.settled_from not in head.pending:
            packed = self._store.get(_key(head.settled_from))
            if packed is not None:
                if now - int.from_bytes(packed[:_TIME_BYTES], "big") <= reserved_ms:
                    break
                self._store.remove(_key(head.settled_from))
            head.settled_from += 1

    def _reach(self, segment: int) -> None:
        known = self._head.settled_from
        self._head.settled_from = segment if known is None else min(known, segment)

    def _segment(self, segment: int) -> Codes:
        codes = self._codes.get(segment)
        if codes is None:
            packed = self._store.get(_key(segment))
            codes = np.zeros(SEGMENT, np.uint8) if packed is None else _unpack(packed[_TIME_BYTES:])
            self._codes[segment] = codes
        return codes


def settle_outcomes(
    state: Mapping[str, bytes],
    queue: int,
    offsets: HalfOffsets,
    outcomes: list[Outcome],
    fast: list[bool],
    now_ms: int,
) -> Changes:
    """Take transactions as ended, before their halves are read: the start of a rebuild.

    `fast` says which of them their producers have delivered.
    """
    store = Store(state)
    head = Head.load(store, queue)
    head.now = max(head.now, now_ms)
    settled = Settled(store, head)
    codes = np.array([CODES[outcome] for outcome in outcomes], np.uint8)
    settled.settle(offsets, codes | np.array(fast, np.uint8) * np.uint8(FAST))
    settled.save(head.now)
    head.save(store)
    return store.changes


def _key(segment: int) -> str:
    return f"settled/{segment}"


def _pack(codes: Codes) -> bytes:
    bits: Any = np.unpackbits(codes.reshape(-1, 1), axis=1)
    outcomes = bytes(np.packbits(bits[:, 6:].ravel()).tobytes())
    fast = bits[:, 5]
    return outcomes + bytes(np.packbits(fast).tobytes()) if fast.any() else outcomes


def _unpack(packed: bytes) -> Codes:
    outcomes, fast = packed[:_OUTCOME_BYTES], packed[_OUTCOME_BYTES:]
    bits = np.unpackbits(np.frombuffer(outcomes, np.uint8)).reshape(-1, 2)
    codes = bits[:, 0] * 2 + bits[:, 1]
    if fast:
        codes |= np.unpackbits(np.frombuffer(fast, np.uint8))[:SEGMENT] * FAST
    return codes.astype(np.uint8)
