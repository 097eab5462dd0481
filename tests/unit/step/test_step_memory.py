"""What a step takes of memory."""

from __future__ import annotations

import tracemalloc

from resolver.protocol import Element, Half, Op, StoredRecord, TransactionStatus
from resolver.resolve.step import Plan, StepSettings, step

SETTINGS = StepSettings(transaction_timeout_ms=3_600_000)
COUNT, BODY_BYTES, FEW = 1_200, 100_000, 200
COMMIT, ROLLBACK = TransactionStatus.COMMIT_MESSAGE, TransactionStatus.ROLLBACK_MESSAGE


def test_ends_scattered_over_all_that_pends_do_not_load_all_of_it() -> None:
    state = _state(None)
    scattered = range(0, COUNT, 5)  # a chunk of state has five such messages
    peak = _peak(state, [_op(op, offset, ROLLBACK) for op, offset in enumerate(scattered)])
    assert sum(map(len, state.values())) > 110_000_000
    assert peak < 80_000_000  # of which 24 are the messages themselves


def test_what_is_delivered_already_is_not_kept_in_memory_however_much_it_is() -> None:
    """No limit of a batch holds for it."""
    ops = [_op(offset, offset, COMMIT, delivered=True) for offset in range(COUNT)]
    assert _peak(_state("tx.fast:orders:a"), ops) < 80_000_000


def _state(fast_id: str | None) -> dict[str, bytes]:
    state: dict[str, bytes] = {}
    for start in range(0, COUNT, FEW):
        halves = [_half(offset, fast_id) for offset in range(start, start + FEW)]
        end = start + FEW
        changes, _ = step(state, 0, Plan(end, 0, 0), halves, [], 1_000, SETTINGS, "")
        state |= {key: value for key, value in changes.items() if value is not None}
    return state


def _peak(state: dict[str, bytes], ops: list[StoredRecord]) -> int:
    """Return the bytes that a step over ops takes at most; each of them ends a half."""
    tracemalloc.start()
    try:
        _, decisions = step(state, 0, Plan(COUNT, 0, len(ops)), [], ops, 2_000, SETTINGS, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [ended.op_offset for ended in decisions.ended] == [op.offset for op in ops]
    return peak


def _half(offset: int, fast_id: str | None) -> StoredRecord:
    half = Half(str(offset), "orders", "orders", 1, None, bytes(BODY_BYTES), [], fast_id=fast_id)
    record = half.to_record("tx.half")
    return StoredRecord(offset, 1_000, record.key, record.value, record.headers)


def _op(op: int, offset: int, state: TransactionStatus, delivered: bool = False) -> StoredRecord:
    said = Op(state, "orders", (Element(0, offset, str(offset)),), delivered=delivered)
    return StoredRecord(op, 2_000, None, said.to_value(), said.to_record("tx.op", 0).headers)
