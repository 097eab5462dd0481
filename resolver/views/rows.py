"""Reading rows of a table by SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def rows_of(table: DeltaTable, sql: str = "SELECT * FROM t") -> list[dict[str, Any]]:
    """Return the rows that an SQL text finds in a table, whose name there is `t`.

    deltalake's own engine reads them. After reading with pyarrow's engine a process sometimes
    aborts at its end, and its exit code is lost.
    """
    batches = QueryBuilder().register("t", table).execute(sql)
    rows: list[dict[str, Any]] = pa.RecordBatchReader.from_stream(batches).read_all().to_pylist()
    return rows
