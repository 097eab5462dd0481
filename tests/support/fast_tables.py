"""A small ledger with fast commits, made by hand, and one whose tables lack their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake

from .tables import Row, half, outcome, time_at, write_tables

FAST_ID = "tx.fast:orders:a"
#: Columns that came with fast commits, by table.
LATER = {
    "half": ("fast_id",),
    "op": ("delivered", "fast", "fast_id"),
    "resolution": ("delivery",),
}


def op(offset: int, word: str, seconds: float, half_offset: int, **changes: Any) -> Row:
    """A row of `op` for one half."""
    state = word if word == "UNKNOWN" else f"{word}_MESSAGE"
    row = {"queue": 0, "tag": "d", "state": state, "group": "orders", "from_check": False}
    named = {"offsets": [half_offset], "transaction_ids": [f"tx-0-{half_offset}"]}
    return {**row, **named, "stored_at": time_at(seconds), "source_offset": offset, **changes}


def revoked(offset: int, seconds: float) -> Row:
    """A row of `op` that says that the fast id is revoked."""
    row = {"queue": 0, "tag": "revoked", "fast_id": FAST_ID, "stored_at": time_at(seconds)}
    return {**row, "source_offset": offset}


def write_fast(folder: Path, is_revoked: bool = True) -> None:
    """Write a ledger.

    Halves of the fast id: 0 was committed fast. 1 waits, or waited, for the revocation. 2 pends.
    3 ended when its producer had given the fast commit up. 4 has no fast id. 5 was withdrawn.
    """
    revocations = [revoked(6, 8), revoked(7, 9)] if is_revoked else []
    waited = [outcome(0, 1, "COMMIT", 8.5, op_offset=1)] if is_revoked else []
    write_tables(
        folder,
        half=[half(0, number, fast_id=None if number == 4 else FAST_ID) for number in range(6)],
        op=[
            op(0, "COMMIT", 0.5, 0, delivered=True),
            op(1, "COMMIT", 0.6, 1),
            op(2, "COMMIT", 0.7, 3),
            op(3, "UNKNOWN", 0.8, 3, fast=False),
            op(4, "COMMIT", 0.9, 4),
            op(5, "ROLLBACK", 1.0, 5),
            *revocations,
        ],
        resolution=[
            outcome(0, 0, "COMMIT", delivery="FAST"),
            outcome(0, 3, "COMMIT", op_offset=2),
            outcome(0, 4, "COMMIT"),
            outcome(0, 5, "ROLLBACK"),
            *waited,
        ],
    )


def make_older(folder: Path) -> None:
    """Write the tables once more as an older version made them, without these columns."""
    for name, columns in LATER.items():
        rows = DeltaTable(folder / name).to_pyarrow_table()
        older = rows.drop_columns(list(columns))
        write_deltalake(folder / name, older, mode="overwrite", schema_mode="overwrite")


def land_newer(folder: Path, offset: int) -> None:
    """Let a fast commit land in tables of an older version, as land does when it has started."""
    newer = folder.parent / "newer"
    fast = outcome(0, offset, "COMMIT", delivery="FAST", source_offset=99)
    write_tables(newer, half=[half(0, offset, fast_id=FAST_ID)], resolution=[fast])
    for name in ("half", "resolution"):
        rows = DeltaTable(newer / name).to_pyarrow_table()
        write_deltalake(folder / name, rows, mode="append", schema_mode="merge")
