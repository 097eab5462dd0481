"""The limits: what Spark by itself and librdkafka by itself do with the same halves."""

from __future__ import annotations

import time

from pyspark.sql.streaming.query import StreamingQuery

from resolver.errors import ResolverError
from resolver.kafka.clients import spark_kafka_options
from resolver.protocol import Half

from . import progress
from .load import GROUP, bare_producer, produce
from .native import native_settings
from .results import Figures
from .sent_log import body_of
from .setup import Setup, Topics, load
from .watch import consumer_of

_LOOK_SECONDS = 0.02
_FETCHED = 10_000
_QUIET_SECONDS = 10.0


def spark_copy(setup: Setup, records: int, body_bytes: int = 512) -> Figures:
    """Spark's Kafka source to its Kafka sink, at least once, nothing in between."""
    with setup.topics() as topics:
        with load(topics, records, body_bytes=body_bytes, no_ops=True) as loading:
            loading.result()
        ends = {topics.names.half: progress.ends_of(topics)[topics.names.half]}
        with native_settings(setup):
            query = _copy(setup, topics)
        try:
            started = time.monotonic()
            progress.await_joined(query, ends)
            seconds = time.monotonic() - started
        finally:
            query.stop()
    return {"records": records, "per_second": records / seconds}


def librdkafka(setup: Setup, records: int, body_bytes: int = 512) -> Figures:
    """A bare librdkafka producer (acks=all, idempotent) and consumer, from Python."""
    with setup.topics() as topics:
        producing = _produce(topics, records, body_bytes)
        consuming = _consume(topics, records)
    return {
        "records": records,
        "produced_per_second": records / producing,
        "consumed_per_second": records / consuming,
    }


def _copy(setup: Setup, topics: Topics) -> StreamingQuery:
    settings = topics.settings
    options = {
        **spark_kafka_options(settings),
        "subscribe": topics.names.half,
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
    }
    return (
        setup.spark.readStream.format("kafka")
        .options(**options)
        .load()
        .select("key", "value", "headers")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("topic", topics.real)
        .option("checkpointLocation", topics.checkpoint)
        .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
        .start()
    )


def _produce(topics: Topics, records: int, body_bytes: int) -> float:
    """Return the seconds from the first record to the last acknowledgement."""
    producer = bare_producer(topics.settings.bootstrap_servers)
    half = Half("0" * 36, GROUP, topics.real, 0, None, body_of(0, body_bytes), [("source", b"b")])
    record = half.to_record(topics.real)._replace(partition=-1)
    started = time.monotonic()
    for _ in range(records):
        produce(producer, record, None)
    if producer.flush(60):
        raise ResolverError("not all that librdkafka produced was acknowledged within 60 s")
    return time.monotonic() - started


def _consume(topics: Topics, records: int) -> float:
    consumer = consumer_of(topics.settings.bootstrap_servers, topics.real)
    started = last = time.monotonic()
    read = 0
    while read < records:
        messages = consumer.consume(_FETCHED, _LOOK_SECONDS)
        count = sum(message.error() is None for message in messages)
        read, last = read + count, time.monotonic() if count else last
        if time.monotonic() - last > _QUIET_SECONDS:
            raise ResolverError(f"librdkafka read {read} of {records} records")
    seconds = time.monotonic() - started
    consumer.close()
    return seconds
