"""Tables that can't be read: found by their logs, and by the files that Spark names."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import DamagedTable
from . import TABLES
from .delta import can_be_listed, is_there, table_path, writers

_FILE = re.compile(r"Encountered error while reading file (\S+)")
#: A file of a table on this machine, which Spark looks for before it reads.
_GONE = re.compile(r"Path does not exist: file:(/\S+\.parquet)")


def damaged_tables(spark: SparkSession, failure: Exception, tables: Path | str) -> list[str]:
    """Return the folders of the tables whose log, or a file that `failure` names, is unreadable."""
    gone = [file for file in _GONE.findall(str(failure)) if not Path(file).exists()]
    named = {_table_of(file) for file in [*_FILE.findall(str(failure)), *gone]}
    paths = {table.name: table_path(tables, table) for table in TABLES}
    return [path for name, path in paths.items() if name in named or not _readable(spark, path)]


def _table_of(file: str) -> str:
    """Return the name of a file's table; a table has all files in folders within its own."""
    return PurePosixPath(file).parent.parent.name


def _readable(spark: SparkSession, path: str) -> bool:
    try:
        if is_there(spark, path):
            writers(spark, path)
    except (PySparkException, Py4JJavaError, DamagedTable):
        return not can_be_listed(spark, path)  # a table that is only out of reach may be whole
    return True
