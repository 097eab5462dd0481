"""How the state of a queue grows with what has settled: the step by itself, its state counted."""

from __future__ import annotations

from collections.abc import Sequence

from resolver.bench.load import BODY, GROUP
from resolver.protocol import Element, Half, Op, Record, StoredRecord, TransactionStatus
from resolver.step import StepSettings, step

_BATCH = 10_000
_PACKED = 32
_NOW_MS = 1_000


class QueueState:
    """A queue's state, fed with halves of which all but some are committed at once."""

    def __init__(self) -> None:
        self._state: dict[str, bytes] = {}
        self._half = 0
        self._op = 0

    def feed(self, halves: int, pending: int) -> int:
        """Feed so many halves, `pending` of them without an op; return the state's bytes."""
        left = set(range(self._half, self._half + halves, halves // pending)) if pending else set()
        for _ in range(halves // _BATCH):
            self._feed_batch(left)
        return sum(map(len, self._state.values()))

    def _feed_batch(self, left: set[int]) -> None:
        halves = range(self._half, self._half + _BATCH)
        ended = [offset for offset in halves if offset not in left]
        ops = [ended[at : at + _PACKED] for at in range(0, len(ended), _PACKED)]
        changes, _ = step(
            self._state,
            0,
            _stored(self._half, [_half(offset) for offset in halves]),
            _stored(self._op, [_op(offsets) for offsets in ops]),
            _NOW_MS,
            StepSettings(),
        )
        for key, value in changes.items():
            if value is None:
                del self._state[key]
            else:
                self._state[key] = value
        self._half += _BATCH
        self._op += len(ops)


def _half(offset: int) -> Record:
    return Half(f"{offset:036}", GROUP, "real", _NOW_MS, None, BODY, []).to_record("tx.half")


def _op(offsets: Sequence[int]) -> Record:
    elements = tuple(Element(at, offset, f"{offset:036}") for at, offset in enumerate(offsets))
    return Op(TransactionStatus.COMMIT_MESSAGE, GROUP, elements).to_record("tx.op", 0)


def _stored(first: int, records: list[Record]) -> list[StoredRecord]:
    return [
        StoredRecord(first + at, _NOW_MS, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    ]
