"""The audit in a Spark session: the options that it needs, and the errors that it raises."""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import AuditError, DamagedTable
from ..ledger.damaged import damaged_tables
from ..settings import Settings
from ..spark.failure import in_short
from ..spark.output import STDERR, output_to
from ..spark.session import spark_session
from ..spark.shutdown import end_spark
from .audit import audit
from .kept import keep
from .report import Report
from .small import OPTIONS, is_small

#: Options that a batch job over millions of rows needs, and a query of small batches does not.
_BATCH_JOB = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    # The rules are conditions within conditions. Spark would take seconds in each task to look for
    # parts that they have in common, and would find little.
    "spark.sql.subexpressionElimination.enabled": "false",
    # List a table's files without a job: one of hundreds of small tasks takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}


_AGAIN = "see the log of Spark, and audit again"


def audited(
    spark: SparkSession, settings: Settings, tables: str, with_topics: bool, examples: int
) -> Report:
    """Audit in a session; raises `AuditError` if Spark can't."""
    own = spark.newSession()  # with other settings than the queries that run beside it
    for name, value in (_BATCH_JOB | (OPTIONS if is_small(tables) else {})).items():
        own.conf.set(name, value)
    try:
        return audit(own, settings, tables, with_topics, examples)
    except (Py4JNetworkError, ConnectionError) as failure:
        raise _ended(failure, []) from failure
    except (PySparkException, Py4JError, DamagedTable) as failure:
        raise _ended(failure, damaged_tables(own, failure, tables)) from failure


def _ended(failure: Exception, damaged: list[str]) -> AuditError:
    ended = f"the audit ended: {in_short(str(failure))}"
    if not damaged:
        return AuditError(ended, remedy=_AGAIN)
    folders = ", ".join(damaged)
    return AuditError(
        f"{ended}. These tables can't be read: {folders}",
        remedy="if their files are whole, see that they may be read, and audit again. If they "
        f"can't be put back, stop land, remove the folders {folders} and start again: land says "
        "which of its own has to go too, and what Kafka still has lands again",
    )


def run(settings: Settings, tables: str, with_topics: bool, examples: int) -> Report:
    """Audit in a session of its own; the output of its JVM is no part of the report."""
    with output_to(STDERR):
        spark = spark_session(settings, "txresolver audit", is_short=is_small(tables))
    try:
        report = audited(spark, settings, tables, with_topics, examples)
        keep(spark, tables, report, with_topics)
        return report
    finally:
        end_spark()
