"""What a step takes of memory."""

from __future__ import annotations

import tracemalloc

from resolver.protocol import Element, Half, Op, StoredRecord, TransactionStatus
from resolver.step import Plan, StepSettings, step

SETTINGS = StepSettings(transaction_timeout_ms=3_600_000)
COUNT, BODY_BYTES, FEW = 1_200, 100_000, 200


def test_ends_scattered_over_all_that_pends_do_not_load_all_of_it() -> None:
    state: dict[str, bytes] = {}
    for start in range(0, COUNT, FEW):
        halves = [_half(offset) for offset in range(start, start + FEW)]
        end = start + FEW
        changes, _ = step(state, 0, Plan(end, end, 0, 0), halves, [], 1_000, SETTINGS)
        state |= {key: value for key, value in changes.items() if value is not None}
    scattered = range(0, COUNT, 5)  # a chunk of state has five such messages
    ops = [_rollback(op, offset) for op, offset in enumerate(scattered)]
    tracemalloc.start()
    try:
        _, decisions = step(state, 0, Plan(COUNT, COUNT, 0, len(ops)), [], ops, 2_000, SETTINGS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [ended.at.offset for ended in decisions.ended] == list(scattered)
    assert sum(map(len, state.values())) > 110_000_000
    assert peak < 80_000_000  # of which 24 are the messages themselves


def _half(offset: int) -> StoredRecord:
    half = Half(str(offset), "orders", "orders", 1, None, bytes(BODY_BYTES), [])
    record = half.to_record("tx.half")
    return StoredRecord(offset, 1_000, record.key, record.value, record.headers)


def _rollback(op: int, offset: int) -> StoredRecord:
    element = Element(0, offset, str(offset))
    record = Op(TransactionStatus.ROLLBACK_MESSAGE, "orders", (element,)).to_record("tx.op", 0)
    return StoredRecord(op, 2_000, None, record.value, record.headers)
