"""The cost of an audit, of tables that Spark makes.

The tables are what land writes of a load. A message has 512 bytes, an op ends 32 halves, and one op
in 50 is a rollback.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from resolver.audit.job import audited
from resolver.errors import ResolverError
from resolver.ledger import HALF, OP, RESOLUTION
from resolver.ledger.delta import append, create_tables, missing_tables, table_path
from resolver.protocol import Names
from resolver.protocol import names as n
from resolver.settings import Settings

from .load import GROUP
from .processes import Peak, spent, usage
from .results import Figures, per_million
from .setup import Setup

_PACKED = 32
_ROLLED_BACK_OF = 50
_BATCH = 10_000
_BORN_MS = 1_767_225_600_000
_ROWS_PER_FILE = 125_000


def make_tables(spark: SparkSession, folder: Path, transactions: int, settings: Settings) -> None:
    """Make the tables of some transactions, each row as land reads it from its record."""
    names = Names(settings.topic_prefix)
    create_tables(spark, folder, missing_tables(spark, folder))
    halves = _transactions(spark, transactions, settings.queues)
    ops = halves.groupBy("queue", "op", "state", "stored_ms").agg(
        F.sort_array(F.collect_list(F.struct("offset", "transaction_id"))).alias("elements")
    )
    for table, records, count in (
        (HALF, _halves(halves, names), transactions),
        (OP, _ops(ops, names), transactions // _PACKED),
        (RESOLUTION, _resolutions(halves, names), transactions),
    ):
        rows = table.rows(records).repartition(1 + count // _ROWS_PER_FILE)
        append(rows, table_path(folder, table), "bench", 1)


def _transactions(spark: SparkSession, count: int, queues: int) -> DataFrame:
    """Return a row each; the halves of an op stand together, and are stored at one time."""
    offset = F.floor(F.col("id") / queues)
    return (
        spark.range(count)
        .select(
            F.pmod("id", F.lit(queues)).cast("int").alias("queue"),
            offset.alias("offset"),
            F.floor(offset / _PACKED).alias("op"),
            F.sha2(F.col("id").cast("string"), 256).substr(1, 36).alias("transaction_id"),
        )
        .withColumn("stored_ms", F.lit(_BORN_MS) + F.col("op"))
        .withColumn(
            "state", F.when(F.col("op") % _ROLLED_BACK_OF == 0, "ROLLBACK").otherwise("COMMIT")
        )
    )


def _halves(halves: DataFrame, names: Names) -> DataFrame:
    body = F.concat(*[F.sha2(F.concat("transaction_id", F.lit(i)), 512) for i in range(4)])
    headers = {
        n.TRAN_MSG: F.lit("true"),
        n.UNIQ_KEY: F.col("transaction_id"),
        n.PGROUP: F.lit(GROUP),
        n.REAL_TOPIC: F.lit("real"),
        n.BORN_TIMESTAMP: F.col("stored_ms").cast("string"),
        "source": F.lit("b"),
    }
    return _records(halves, names.half, "offset", body, headers)


def _ops(ops: DataFrame, names: Names) -> DataFrame:
    body = F.struct(
        F.concat("state", F.lit("_MESSAGE")).alias("state"),
        F.lit(GROUP).alias("group"),
        F.col("elements.offset").alias("offsets"),
        F.col("elements.transaction_id").alias("transaction_ids"),
        F.lit(False).alias("from_check"),
    )
    return _records(ops, names.op, "op", F.to_json(body), {n.TAGS: F.lit("d")})


def _resolutions(halves: DataFrame, names: Names) -> DataFrame:
    fields = {
        "transaction_id": F.col("transaction_id"),
        "queue": F.col("queue"),
        "offset": F.col("offset"),
        "outcome": F.col("state"),
        "source": F.lit("END"),
        "group": F.lit(GROUP),
        "topic": F.lit("real"),
        "op_offset": F.col("op"),
        "checks": F.lit(0),
        "answered": F.lit(0),
        **dict.fromkeys(("born_at", "stored_at", "ended_at", "decided_at"), F.col("stored_ms")),
        "batch_id": F.floor(F.col("offset") / _BATCH),
        "query_id": F.lit("bench"),
    }
    body = F.to_json(F.struct(*[value.alias(name) for name, value in fields.items()]))
    return _records(halves, names.resolution, "offset", body, {})


def _records(
    rows: DataFrame, topic: str, offset: str, body: Column, headers: dict[str, Column]
) -> DataFrame:
    """Return records as Kafka's source gives them."""
    pairs = [
        F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
        for name, value in headers.items()
    ]
    return rows.select(
        F.lit(topic).alias("topic"),
        F.col("queue").alias("partition"),
        F.col(offset).alias("offset"),
        F.timestamp_millis("stored_ms").alias("timestamp"),
        F.lit(None).cast("binary").alias("key"),
        body.cast("binary").alias("value"),
        F.array(*pairs).alias("headers"),
    )


def audit_cost(setup: Setup, transactions: int) -> Figures:
    """Make tables, audit them, and return the time, CPU and memory that the audit took.

    Raises `ResolverError` if the audit finds a violation: there is none.
    """
    folder = setup.folder()
    make_tables(setup.spark, folder, transactions, setup.settings)
    with Peak() as peak:
        started, before = time.monotonic(), usage()
        report = audited(setup.spark, setup.settings, str(folder), with_topics=False, examples=3)
        seconds, after = time.monotonic() - started, usage()
    if not report.holds or report.counts["halves"] != transactions:
        raise ResolverError("\n".join(report.lines()))
    shutil.rmtree(folder)
    return {
        "transactions": transactions,
        "seconds": seconds,
        "per_second": transactions / seconds,
        **per_million(spent(before, after), transactions),
        "memory_mb": peak.memory,
    }
