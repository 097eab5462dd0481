"""The records by which operations act on halves with a fast id."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver.operations import Operation
from resolver.operations.records import records_of
from resolver.protocol import (
    Act,
    Half,
    HalfId,
    Names,
    Record,
    StoredHalf,
    commit_record,
    decode_half,
)
from resolver.protocol.names import FAST, RESUMES
from resolver.views import Ledger
from tests.support.tables import START, half, time_at, write_tables

NAMES = Names("tx.")
FAST_ID = NAMES.fast_id("orders", "a")
SENT = Half(
    "tx-0-0", "orders", "orders.placed", 1, b"k", b"v", [("a", None)], real_qid=2, fast_id=FAST_ID
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    stored = SENT.to_record(NAMES.half)
    headers = [{"key": name, "value": value} for name, value in stored.headers]
    row = half(0, 0, key=stored.key, value=stored.value, headers=headers, fast_id=FAST_ID)
    write_tables(tmp_path, half=[row])
    return Ledger(tables=tmp_path)


def acted(act: Act, ledger: Ledger, detail: str = "") -> Record:
    operation = Operation.begin(act, detail, "ada", "why", [HalfId(0, 0)], time_at(9))
    [record] = records_of(operation, operation.halves, ledger, NAMES)
    return record


def test_a_half_that_is_resumed_goes_without_the_fast_id(ledger: Ledger) -> None:
    """Its producer of then is gone: nobody would ever deliver it by that id."""
    record = acted(Act.RESUME, ledger)
    again = decode_half(record.key, record.value, record.headers)
    assert again == SENT._replace(fast_id=None, headers=[("a", None), (RESUMES, b"0:0")])


def test_what_was_committed_fast_is_replayed_as_its_commit_was(ledger: Ledger) -> None:
    stored_ms = round(START.timestamp() * 1_000)
    commit = commit_record(StoredHalf(0, 0, stored_ms, SENT, SENT.to_record(NAMES.half).headers))
    assert acted(Act.REPLAY, ledger, "orders.placed") == commit
    assert FAST not in dict(commit.headers)
