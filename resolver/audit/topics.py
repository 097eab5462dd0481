"""The topics as a `read_committed` reader finds them now."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)
from pyspark.sql import DataFrame, SparkSession

from ..errors import AuditError
from ..kafka.clients import admin_client, reader_config, spark_batch_options
from ..settings import Settings

_TIMEOUT_SECONDS = 30.0
#: Seconds for which a transaction that is open when the audit comes may stay open.
_OPEN_SECONDS = 120.0
_LOOK_SECONDS = 0.1

#: Errors of a missing topic; no topic can have an illegal name.
_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION)

#: The first offset and the end, one above the last record, by topic and partition.
Ranges = dict[str, dict[int, tuple[int, int]]]


@contextmanager
def _asking() -> Iterator[None]:
    """Raise errors of Kafka's client as `AuditError`."""
    try:
        yield
    except KafkaException as error:
        raise AuditError(
            f"Kafka can't be asked: {error.args[0].str()}",
            remedy="see that the brokers are up and that the auditor has its rights, and audit "
            "again",
        ) from error
    except FutureTimeout as error:
        raise AuditError(
            "Kafka can't be asked: no answer in time",
            remedy="see that all brokers are up, and audit again",
        ) from error


@_asking()
def readable(settings: Settings, topics: Iterable[str], needed: Collection[str] = ()) -> Ranges:
    """Return the readable ranges of topics, without those that don't exist or may not be seen.

    Raises `AuditError` if a `needed` topic may not be seen. Returns when all records written by now
    can be read. The ranges contain all records committed at the call, though the markers of their
    transaction are written one by one.
    """
    with (
        closing(_consumer(settings, "read_uncommitted")) as written,
        closing(_consumer(settings)) as committed,
    ):
        ranges = _written(written, topics)
        _refuse_hidden(settings, sorted(set(needed) - ranges.keys()))
        for topic, partitions in ranges.items():
            for partition, (_, end) in partitions.items():
                _await_readable(committed, TopicPartition(topic, partition), end)
        return ranges


@_asking()
def compacted(settings: Settings, topics: Iterable[str]) -> set[str]:
    """Return the topics of which Kafka keeps only the last record of each key."""
    names = list(topics)
    if not names:
        return set()
    admin: AdminClient = admin_client(settings)
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    described = admin.describe_configs(asked, request_timeout=_TIMEOUT_SECONDS)
    answers = {
        resource.name: answer.result(2 * _TIMEOUT_SECONDS) for resource, answer in described.items()
    }
    return {name for name, config in answers.items() if "compact" in config["cleanup.policy"].value}


@_asking()
def stored(settings: Settings, topics: Iterable[str]) -> dict[str, dict[int, int]]:
    """Return where each partition ends, by topic, without topics that don't exist.

    Raises `AuditError` if a topic may not be seen.
    """
    names = list(topics)
    with closing(_consumer(settings, "read_uncommitted")) as written:
        ranges = _written(written, names)
    _refuse_hidden(settings, sorted(set(names) - ranges.keys()))
    return {
        topic: {partition: end for partition, (_, end) in partitions.items()}
        for topic, partitions in ranges.items()
    }


def records(spark: SparkSession, settings: Settings, ranges: Ranges) -> DataFrame:
    """Return the committed records in these ranges, as Spark's Kafka source gives them."""
    starts, ends = (
        {
            topic: {str(p): ends[side] for p, ends in partitions.items()}
            for topic, partitions in ranges.items()
        }
        for side in (0, 1)
    )
    options = {
        **spark_batch_options(settings),
        "assign": json.dumps({topic: sorted(ranges[topic]) for topic in ranges}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
    return spark.read.format("kafka").options(**options).load()


def _written(consumer: Consumer, topics: Iterable[str]) -> Ranges:
    existing = consumer.list_topics(timeout=_TIMEOUT_SECONDS).topics
    return {
        topic: {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topic, partition), _TIMEOUT_SECONDS
            )
            for partition in existing[topic].partitions
        }
        for topic in sorted(topics)
        if topic in existing
    }


def _refuse_hidden(settings: Settings, absent: list[str]) -> None:
    """Raise `AuditError` if a topic may not be seen: the list of topics leaves it out."""
    if not absent:
        return
    admin: AdminClient = admin_client(settings)
    asked = admin.describe_topics(TopicCollection(absent), request_timeout=_TIMEOUT_SECONDS)
    hidden = [topic for topic, answer in asked.items() if _is_hidden(answer)]
    if hidden:
        raise AuditError(
            f"the auditor may not see topics {', '.join(hidden)}, so what is in them is not known",
            remedy="grant it what section 9 of docs/protocol.md says that auditors need on them",
        )


def _is_hidden(answer: Future[Any]) -> bool:
    error = answer.exception(2 * _TIMEOUT_SECONDS)
    if not isinstance(error, KafkaException):
        return False
    code = error.args[0].code()
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return True
    if code in _NOT_THERE:
        return False
    raise error


def _await_readable(consumer: Consumer, partition: TopicPartition, end: int) -> None:
    until = time.monotonic() + _OPEN_SECONDS
    while consumer.get_watermark_offsets(partition, _TIMEOUT_SECONDS)[1] < end:
        if time.monotonic() > until:
            raise AuditError(
                f"an open transaction has hidden records of partition {partition.partition} of "
                f"{partition.topic} for {_OPEN_SECONDS:.0f} s",
                remedy="audit again when its producer has ended it, or Kafka has after "
                "transaction.timeout.ms; `txresolver doctor` names a transaction that never ends",
            )
        time.sleep(_LOOK_SECONDS)


def _consumer(settings: Settings, isolation: str = "read_committed") -> Consumer:
    return Consumer(reader_config(settings, **{"isolation.level": isolation}))
