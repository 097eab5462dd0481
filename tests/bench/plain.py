"""The plain Spark way: a stream-stream left outer join with watermarks, and Spark's Kafka sink.

What one writes without this project: at-least-once delivery, every matching end delivers, and an
end that is later than the watermark is dropped.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from resolver.kafka.clients import spark_kafka_options
from resolver.protocol import Names
from resolver.protocol.names import PGROUP, REAL_TOPIC
from resolver.settings import Settings

from .load import PACKED

_OP = "state string, offsets array<bigint>"


def plain_join(
    spark: SparkSession, settings: Settings, checkpoint: str, wait_seconds: int, tasks: int
) -> StreamingQuery:
    """Start it: commits go to their topics, halves without an end in time to their check topic.

    `wait_seconds` is how long after its half an end still matches, and the delay of both
    watermarks. A wait that loses nothing also puts off every check, and keeps every row that long.
    `tasks` read each topic.
    """
    wait = f"{wait_seconds} seconds"
    halves = _halves(spark, settings).coalesce(tasks).withWatermark("stored_at", wait)
    ops = _ops(spark, settings).coalesce(tasks).withWatermark("ended_at", wait)
    matches = (
        (F.col("queue") == F.col("op_queue"))
        & (F.col("offset") == F.col("half"))
        & F.col("ended_at").between(
            F.col("stored_at"), F.col("stored_at") + F.expr(f"INTERVAL {wait}")
        )
    )
    joined = halves.join(ops, matches, "leftOuter")
    is_check = F.col("state").isNull()
    check = F.concat(F.lit(Names(settings.topic_prefix).check("")), _header(PGROUP))
    return (
        joined.where(is_check | (F.col("state") == "COMMIT_MESSAGE"))
        .select(
            F.when(is_check, check).otherwise(_header(REAL_TOPIC)).alias("topic"),
            "key",
            "value",
            "headers",
        )
        .writeStream.queryName("plain")
        .format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
        .start()
    )


def _halves(spark: SparkSession, settings: Settings) -> DataFrame:
    most = settings.max_offsets_per_trigger
    records = _records(spark, settings, Names(settings.topic_prefix).half, most)
    return records.select(
        F.col("partition").alias("queue"),
        "offset",
        F.col("timestamp").alias("stored_at"),
        "key",
        "value",
        "headers",
    )


def _ops(spark: SparkSession, settings: Settings) -> DataFrame:
    # As many ends as there are halves, not as many records.
    most = settings.max_offsets_per_trigger // PACKED
    records = _records(spark, settings, Names(settings.topic_prefix).op, most)
    op = F.from_json(F.col("value").cast("string"), _OP)
    return records.select("partition", "timestamp", op.alias("op")).select(
        F.col("partition").alias("op_queue"),
        F.col("timestamp").alias("ended_at"),
        F.col("op.state").alias("state"),
        F.explode("op.offsets").alias("half"),
    )


def _records(spark: SparkSession, settings: Settings, topic: str, most: int) -> DataFrame:
    options = {
        **spark_kafka_options(settings),
        "subscribe": topic,
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(most),
    }
    return spark.readStream.format("kafka").options(**options).load()


def _header(name: str) -> Column:
    named = F.filter("headers", lambda header: header["key"] == name)
    return F.get(named, F.lit(0))["value"].cast("string")
