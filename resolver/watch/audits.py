"""The last audit, as the table `audit` has it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ..views.rows import rows_of

#: Name of the table that audits are kept in.
_TABLE = "audit"


class Audit(NamedTuple):
    """When an audit ended, and how many violations of each invariant it found."""

    ended_at: datetime
    violations: dict[str, int]


def last_audit(tables: str) -> Audit | None:
    """Return the last audit of the tables in a folder; None if there was none."""
    try:
        rows = rows_of(DeltaTable(f"{tables.rstrip('/')}/{_TABLE}"))
    except TableNotFoundError:
        return None
    last = max(rows, key=lambda row: row["audited_at"], default=None)
    return None if last is None else Audit(last["audited_at"], dict(last["violations"]))
