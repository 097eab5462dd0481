"""Tables on this machine, read without Spark's Delta.

Spark runs a job to read a table's log, and takes seconds for the first one. deltalake takes
milliseconds. What deltalake finds is compared with the checksum file that Delta leaves beside a
commit. Where there is none, or deltalake can't read the log, Spark reads it and decides.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import DamagedTable

_ON_THIS_MACHINE = re.compile(r"file:(//)?(?=/[^/])")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Characters that deltalake, Hadoop and Spark all take as they are, in the path of a file.
_PLAIN = re.compile(r"[A-Za-z0-9/._~+@=,-]+")


def folder_here(path: str, default: str) -> str | None:
    """Return the folder of a path if it is on this machine, and plain; else None.

    `default` is Hadoop's file system for a path without one.
    """
    if _ELSEWHERE.match(path):
        folder = _ON_THIS_MACHINE.sub("", path, count=1)
        if folder == path:
            return None
    elif default.startswith("file:"):
        folder = os.path.abspath(path)
    else:
        return None
    return folder if _PLAIN.fullmatch(folder) else None


@dataclass(frozen=True)
class TableHere:
    """A table that was read as a whole.

    `writers` has, by `app_id`, the last version that the table took from it, and its time in ms.
    """

    version: int
    writers: dict[str, tuple[int, int]]
    _folder: str
    _files: list[str]
    _schema: str

    @property
    def schema(self) -> StructType:
        """The columns that the table has now."""
        return StructType.fromJson(json.loads(self._schema))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return all rows."""
        schema = self.schema
        if not self._files:  # createDataFrame([]) counts as huge in Spark's plans
            columns = [
                f"CAST(NULL AS {column.dataType.simpleString()}) AS `{column.name}`"
                for column in schema
            ]
            return spark.range(0).selectExpr(*columns)
        reader = spark.read.schema(schema).option("basePath", self._folder)
        return reader.parquet(*self._files)


def open_here(folder: str) -> TableHere | None:
    """Read the log of the table in a folder; None if only Spark can say what is there.

    Raises `DamagedTable` where the log lacks a commit, by Delta's checksum file.
    """
    log = Path(folder, "_delta_log")
    try:
        if not DeltaTable.is_deltatable(folder):
            return None
        _refuse_lost_commit(log)
        table = DeltaTable(folder)
        version = table.version()
        files = pa.table(table.get_add_actions(flatten=True))
        paths: list[str] = files["path"].to_pylist()
        size = sum(files["size_bytes"].to_pylist())
        is_plain = all(_PLAIN.fullmatch(path) and not path.startswith("/") for path in paths)
        if table.protocol().min_reader_version != 1 or not is_plain:
            return None
        schema = table.schema().to_json()
        checksum = json.loads((log / f"{version:020}.crc").read_text(encoding="utf-8"))
        counted = (int(checksum["numFiles"]), int(checksum["tableSizeBytes"]))
        set_transactions = checksum["setTransactions"]
        writers = {
            writer["appId"]: (int(writer["version"]), int(writer["lastUpdated"]))
            for writer in set_transactions
        }
    except (DeltaError, OSError, ValueError, KeyError, TypeError):
        return None
    if counted != (len(paths), size):
        raise DamagedTable(
            f"{folder}: a commit is gone from its log: {len(paths)} files of {size} bytes, not "
            f"{counted[0]} of {counted[1]}"
        )
    return TableHere(version, writers, folder, [f"{folder}/{path}" for path in paths], schema)


def _refuse_lost_commit(log: Path) -> None:
    """Compare the last commit with the last checksum file: Delta writes it after the commit."""
    last = {kind: max(log.glob(f"*.{kind}"), default=None) for kind in ("json", "crc")}
    commit, checksum = last["json"], last["crc"]
    if commit is not None and checksum is not None and checksum.stem > commit.stem:
        raise DamagedTable(f"{log.parent}: commit {int(checksum.stem)} is gone from its log")
