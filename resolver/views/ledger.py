"""The ledger without a JVM: deltalake opens the tables, and DataFusion within it runs the SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError, TableNotFoundError
except ModuleNotFoundError as missing:
    from ..errors import how_to_install

    raise ModuleNotFoundError(
        f"resolver.views needs {missing.name}: {how_to_install('ledger')}", name=missing.name
    ) from None

from ..errors import LedgerError
from ..settings import Settings
from .catalogue import NAMED_VIEWS
from .questions import Moment, Questions, version_in
from .view import TABLES, complete

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
#: Functions that DataFusion names otherwise than Spark's SQL. The arguments have no brackets.
_DIALECT = (
    (re.compile(r"unix_millis\(([^()]*)\)"), r"(cast(\1 AS bigint) / 1000)"),
    (
        re.compile(r"timestamp_millis\(([^()]*)\)"),
        """arrow_cast(arrow_cast(\\1, 'Timestamp(Millisecond, Some("UTC"))'), """
        """'Timestamp(Microsecond, Some("UTC"))')""",
    ),
    (re.compile(r"\bexplode\("), "unnest("),
)
#: DataFusion compares the columns that it plans with those that it reads, comments included. In
#: a union it keeps one side's comments where it reads, and none where it plans: it would fail.
_NO_CHECK_OF_COMMENTS = "SET datafusion.execution.skip_physical_aggregate_schema_check = true"


class Ledger(Questions[pa.Table]):
    """The tables of a home, or below any folder or URI that deltalake reaches.

    The tables are opened once, on first use, and stay as they were then. `settings` say how long
    checks wait; without them the defaults hold. `storage_options` are deltalake's. `at` is a time,
    or a version of each table as `versions` returns them.

    Example:
        ```python
        ledger = Ledger(".txresolver")
        ledger.pending(Filter(group="orders")).to_pylist()
        ledger.sql("SELECT status, count(*) FROM transactions GROUP BY status")
        ```
    """

    def __init__(
        self,
        home: str | PathLike[str] = ".txresolver",
        *,
        tables: str | PathLike[str] | None = None,
        settings: Settings | None = None,
        storage_options: Mapping[str, str] | None = None,
        at: Moment | None = None,
    ) -> None:
        super().__init__(home, tables, settings, at)
        self._storage_options = dict(storage_options or {})

    def as_of(self, at: Moment) -> Ledger:
        """Return the ledger as it was: what had landed by a time, or in versions of the tables."""
        return Ledger(
            tables=self.tables,
            settings=self._settings,
            storage_options=self._storage_options,
            at=at,
        )

    def sql(self, text: str) -> pa.Table:
        """Run SQL of DataFusion over the views and the tables, by their names."""
        if not self._has_views:
            for view in NAMED_VIEWS:
                self._asked(f"CREATE VIEW {view.name} AS {self._text(view.sql)}")
            self._has_views = True
        return self._asked(text)

    @property
    def versions(self) -> dict[str, int]:
        """The version of each table that is read."""
        return {name: table.version() for name, table in self._opened.items()}

    _has_views = False
    _compared = 0

    @cached_property
    def _opened(self) -> dict[str, DeltaTable]:
        # Open the halves first, as land writes them first: a half that lands meanwhile would seem
        # pending, although its outcome has landed too.
        return {name: self._open(name) for name in TABLES}

    @cached_property
    def _engine(self) -> QueryBuilder:
        engine = QueryBuilder()
        engine.execute(_NO_CHECK_OF_COMMENTS)
        for name, table in self._opened.items():
            _register(engine, name, name, table)
        return engine

    def _open(self, name: str) -> DeltaTable:
        path = f"{self.tables}/{name}"
        try:
            table = DeltaTable(path, storage_options=self._storage_options)
            if isinstance(self.at, datetime):
                table.load_as_version(self.at)
            elif self.at is not None:
                table.load_as_version(version_in(self.at, name))
        except TableNotFoundError:
            raise self._no_table(name) from None
        except (DeltaError, OSError, ValueError) as error:
            raise self._unreadable(name, _line(error)) from error
        return table

    def _names(self) -> Mapping[str, str]:
        return {name: f"`{name}`" for name in TABLES}

    def _then(self, then: Self) -> Mapping[str, str]:
        self._compared += 1
        names = {name: f"then_{name}_{self._compared}" for name in TABLES}
        for name, own in names.items():  # DataFusion takes a name once
            _register(self._engine, own, name, then._opened[name])
        pending = then._text("{pending}", names)
        return {"then_pending": pending, "then_resolution": names["resolution"]}

    def _asked(self, sql: str) -> pa.Table:
        for spark, ours in _DIALECT:
            sql = spark.sub(ours, sql)
        try:
            answer = pa.RecordBatchReader.from_stream(self._engine.execute(sql)).read_all()
        except LedgerError:
            raise
        except Exception as error:  # DataFusion's errors have no class of their own
            raise self._refused(_line(error)) from error
        return answer.cast(pa.schema([_plain(field) for field in answer.schema]))

    def _rows(self, sql: str, values: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._run(sql, values).to_pylist()
        return rows

    def _quoted(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"


def _register(engine: QueryBuilder, called: str, name: str, table: DeltaTable) -> None:
    """Register the table `name` as `called`, with all columns."""
    stored = f"stored_{called}"
    sql = complete(name, stored, [field.name for field in table.schema().fields])
    engine.register(called if sql is None else stored, table)
    if sql is not None:
        engine.execute(f"CREATE VIEW `{called}` AS {sql}")


def _line(error: Exception) -> str:
    """Return an error's text as one line without colours."""
    return " ".join(_COLOUR.sub("", str(error)).split())


def _plain(field: pa.Field) -> pa.Field:
    """Return a field of a type that every reader of Arrow knows."""
    if pa.types.is_string_view(field.type):
        return field.with_type(pa.string())
    if pa.types.is_binary_view(field.type):
        return field.with_type(pa.binary())
    return field
