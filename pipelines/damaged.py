"""Tables that can't be read: which they are, by their logs and by what Spark says of a file."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from resolver.errors import DamagedTable
from resolver.tables import TABLES
from resolver.tables.delta import can_be_listed, is_there, table_path, writers

_FILE = re.compile(r"Encountered error while reading file (\S+)")


def damaged_tables(spark: SparkSession, failure: Exception, tables: Path | str) -> list[str]:
    """Return the folders of the tables whose log, or a file that `failure` names, is unreadable."""
    named = {_table_of(file) for file in _FILE.findall(str(failure))}
    paths = {table.name: table_path(tables, table) for table in TABLES}
    return [path for name, path in paths.items() if name in named or not _readable(spark, path)]


def _table_of(file: str) -> str:
    """Return the name of a file's table, whose files are all in folders within its own."""
    return PurePosixPath(file).parent.parent.name


def _readable(spark: SparkSession, path: str) -> bool:
    try:
        if is_there(spark, path):
            writers(spark, path)
    except (PySparkException, Py4JJavaError, DamagedTable):
        return not can_be_listed(spark, path)  # what is only out of reach may well be whole
    return True
