"""The job `audit`: recomputes every outcome from the landed tables, and compares.

Run by `txresolver audit`, or by itself on a cluster:

    spark-submit pipelines/audit.py --tables DIR [--topics --bootstrap-servers H]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipelines.damaged import damaged_tables
from pipelines.ending import end_spark
from pipelines.failure import in_short
from pipelines.output import STDERR, output_to
from pipelines.session import spark_session
from resolver.audit.audit import audit
from resolver.audit.report import Report
from resolver.errors import AuditError, DamagedTable, TxResolverError
from resolver.settings import Settings, load_for_command

#: What a batch job over millions of rows needs, and a query of small batches does not.
_BATCH_JOB = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    # The rules are conditions within conditions: to look for what they have in common takes Spark
    # seconds for each task, and there is little.
    "spark.sql.subexpressionElimination.enabled": "false",
}


def audited(
    spark: SparkSession, settings: Settings, tables: str, with_topics: bool, examples: int
) -> Report:
    """Audit in a session; raises `AuditError` where Spark can't."""
    own = spark.newSession()  # its settings are not those of queries that run beside it
    for name, value in _BATCH_JOB.items():
        own.conf.set(name, value)
    try:
        return audit(own, settings, tables, with_topics, examples)
    except (Py4JNetworkError, ConnectionError) as failure:
        raise AuditError(f"the audit ended: {in_short(str(failure))}") from failure
    except (PySparkException, Py4JError, DamagedTable) as failure:
        remedy = _remedy(damaged_tables(own, failure, tables))
        raise AuditError(f"the audit ended: {in_short(str(failure))}{remedy}") from failure


def _remedy(damaged: list[str]) -> str:
    if not damaged:
        return ""
    folders = ", ".join(damaged)
    return (
        f". These tables can't be read: {folders}. If their files are whole, see that they may be "
        "read, and audit again. If they can't be put back, stop land, "
        f"remove the folders {folders} and start again: land says which of its own has to go too, "
        "and what Kafka still has lands again"
    )


def run(settings: Settings, tables: str, with_topics: bool, examples: int) -> Report:
    """Audit in a session of its own; what its JVM has to say is no part of the report."""
    with output_to(STDERR):
        spark = spark_session(settings, "txresolver audit")
    try:
        return audited(spark, settings, tables, with_topics, examples)
    finally:
        end_spark()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Audit the ledger against the protocol's rules.")
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--topics", action="store_true", help="compare with the real topics too")
    parser.add_argument("--examples", type=int, default=10, help="violations shown of each kind")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit once and print the report."""
    given = _arguments(arguments)
    try:
        options = {"bootstrap_servers": given.bootstrap_servers}
        settings = load_for_command(given.config, given.set, options)
        report = run(settings, given.tables, given.topics, given.examples)
    except TxResolverError as error:
        print(f"audit: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(report.as_json(), indent=2) if given.json else "\n".join(report.lines()))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
