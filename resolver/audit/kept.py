"""Keeps the numbers of an audit in a table beside the audited tables, for the metrics.

A row has no examples: these are for people who run the audit.
"""

from __future__ import annotations

import logging
from datetime import datetime, timezone

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..ledger.delta import local_folder
from .report import Report

logger = logging.getLogger(__name__)

#: Name of the table, and its columns.
TABLE = "audit"
_COLUMNS = "audited_at timestamp, with_topics boolean, violations map<string, bigint>"
_SCHEMA = pa.schema(
    {
        "audited_at": pa.timestamp("us", "UTC"),
        "with_topics": pa.bool_(),
        "violations": pa.map_(pa.string(), pa.int64()),
    }
)


def keep(spark: SparkSession, tables: str, report: Report, with_topics: bool) -> None:
    """Add an audit to the table; an auditor that may only read keeps nothing."""
    violations = {finding.invariant.value: finding.violations for finding in report.findings}
    row = (datetime.now(timezone.utc), with_topics, violations)
    path = f"{tables.rstrip('/')}/{TABLE}"
    folder = local_folder(spark, path)
    try:
        if folder is None:
            spark.createDataFrame([row], _COLUMNS).write.format("delta").mode("append").save(path)
        else:  # without Spark's Delta, which takes seconds to begin
            columns = [[row[0]], [row[1]], [list(violations.items())]]
            write_deltalake(folder, pa.table(columns, schema=_SCHEMA), mode="append")
    except (PySparkException, Py4JError, DeltaError, OSError):
        logger.warning("the audit's result can't be kept in %s: metrics do not show it", path)
