"""The ledger on Spark: the questions of `resolver.views.Ledger`, answered as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    from delta.tables import DeltaTable
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType
except ModuleNotFoundError as missing:
    from ..errors import how_to_install

    raise ModuleNotFoundError(
        f"resolver.views.spark needs {missing.name}: {how_to_install('spark')}", name=missing.name
    ) from None

from ..settings import Settings
from ..spark.failure import in_short
from .catalogue import NAMED_VIEWS
from .filter import milliseconds
from .questions import PICKED, Moment, Questions, version_in
from .view import TABLES, View, complete


class SparkLedger(Questions[DataFrame]):
    """The tables of a home, or below any folder or URI that Spark reads with Delta.

    Each table is read at one version: that of the first use, or that of `at`, a time or a version
    of each table. `settings` say how long checks wait; without them the defaults hold.

    Example:
        ```python
        ledger = SparkLedger(spark, ".txresolver")
        ledger.pending(Filter(group="orders")).show()
        ledger.register()
        spark.sql("SELECT status, count(*) FROM transactions GROUP BY status").show()
        ```
    """

    def __init__(
        self,
        spark: SparkSession,
        home: str | PathLike[str] = ".txresolver",
        *,
        tables: str | PathLike[str] | None = None,
        settings: Settings | None = None,
        at: Moment | None = None,
    ) -> None:
        super().__init__(home, tables, settings, at)
        self._spark = spark

    def as_of(self, at: Moment) -> SparkLedger:
        """Return the ledger as it was: what had landed by a time, or in versions of the tables."""
        return SparkLedger(self._spark, tables=self.tables, settings=self._settings, at=at)

    def bodies(self, schema: str | StructType | None = None) -> DataFrame:
        """Return the view `bodies` with a column `json`: the value, null where it is no JSON.

        With a `schema` it is a struct, and `json.*` are its fields as columns. Without one it is a
        variant: `variant_get` takes fields of it.
        """
        text = F.try_validate_utf8(F.col("value"))
        json = F.try_parse_json(text) if schema is None else F.from_json(text, schema)
        return self._run("SELECT v.* FROM {bodies} v").withColumn("json", json)

    def register(self, prefix: str = "") -> None:
        """Make temporary views of all views and tables, whose names begin with `prefix`.

        They have comments on their columns. They show the versions, and ages at the time, of this
        call: register a new ledger to see newer rows.
        """
        for view in NAMED_VIEWS:
            self._spark.sql(self._statement(f"{prefix}{view.name}", view))
        for name, table in self._tables.items():
            rows = self._run(PICKED, {"view": table, "where": ""})
            rows.createOrReplaceTempView(f"{prefix}{name}")

    def _statement(self, name: str, view: View) -> str:
        columns = ", ".join(
            f"`{column}` COMMENT {self._quoted(meaning)}"
            for column, meaning in view.columns.items()
        )
        return (
            f"CREATE OR REPLACE TEMPORARY VIEW {_identifier(name)} ({columns}) "
            f"COMMENT {self._quoted(view.comment)} AS {self._text(view.sql)}"
        )

    @cached_property
    def versions(self) -> dict[str, int]:
        """The version of each table that is read."""
        # Look at the halves first, as land writes them first: a half that lands meanwhile would
        # seem pending, although its outcome has landed too.
        return {name: self._version(name) for name in TABLES}

    def _version(self, name: str) -> int:
        if isinstance(self.at, Mapping):
            return version_in(self.at, name)
        path = f"{self.tables}/{name}"
        try:
            if not DeltaTable.isDeltaTable(self._spark, path):
                raise self._no_table(name)
            return _version_at(DeltaTable.forPath(self._spark, path), self.at)
        except PySparkException as error:
            raise self._unreadable(name, in_short(str(error))) from error

    def _names(self) -> Mapping[str, str]:
        return self._tables

    @cached_property
    def _tables(self) -> Mapping[str, str]:
        return {name: self._table(name, version) for name, version in self.versions.items()}

    def _table(self, name: str, version: int) -> str:
        reader = self._spark.read.format("delta").option("versionAsOf", version)
        try:
            columns = reader.load(f"{self.tables}/{name}").columns
        except PySparkException as error:
            raise self._unreadable(name, in_short(str(error))) from error
        table = f"delta.{_identifier(self._whole(name))} VERSION AS OF {version}"
        sql = complete(name, table, columns)
        return table if sql is None else f"({sql})"

    def _whole(self, name: str) -> str:
        """Return a table's path with its file system: Spark's SQL takes no relative path."""
        jvm: Any = self._spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(f"{self.tables}/{name}")
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        return str(path.getFileSystem(conf).makeQualified(path).toString())

    def _then(self, then: Self) -> Mapping[str, str]:
        names = then._names()
        return {"then_pending": then._text("{pending}"), "then_resolution": names["resolution"]}

    def _asked(self, sql: str) -> DataFrame:
        try:
            return self._spark.sql(sql)
        except PySparkException as error:
            raise self._refused(in_short(str(error))) from error

    def _rows(self, sql: str, values: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        rows = self._run(sql, values).collect()
        return [{name: _utc(value) for name, value in row.asDict().items()} for row in rows]

    def _quoted(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"


def _version_at(table: DeltaTable, moment: datetime | None) -> int:
    """Return the last version by a time, or the first that the log still has."""
    if moment is None:
        return int(table.history(1).collect()[0].version)
    by_then = F.unix_millis("timestamp") <= milliseconds(moment)
    version = F.coalesce(F.max(F.when(by_then, F.col("version"))), F.min("version"))
    return int(table.history().agg(version).collect()[0][0])


def _identifier(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _utc(value: Any) -> Any:
    # Spark returns times without a zone, in the zone of the machine.
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
