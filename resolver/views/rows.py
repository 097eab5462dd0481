"""Reading rows of a table by SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def rows_of(table: DeltaTable, sql: str = "SELECT * FROM t") -> list[dict[str, Any]]:
    """Return the rows that an SQL text finds in a table, whose name there is `t`.

    By deltalake's own engine. Now and then a process that has read by pyarrow's aborts at its end,
    and its exit code is lost.
    """
    found = QueryBuilder().register("t", table).execute(sql)
    rows: list[dict[str, Any]] = pa.RecordBatchReader.from_stream(found).read_all().to_pylist()
    return rows
