"""What is left of erased messages outside the tables, and until when Kafka has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from ..kafka.clients import admin_client, reader_config
from ..protocol import Names
from ..protocol.record import printable
from ..settings import Settings
from ..views import HalfId, Ledger
from .erasure import copies
from .operation import Operation
from .table import OperationTable

#: Time in seconds for one answer of Kafka.
_ANSWER_SECONDS = 10.0
#: Kafka looks for what is too old every five minutes, unless its settings say otherwise.
_LOOKED_FOR = timedelta(minutes=5)
_ROWS = """
    SELECT source_topic, source_partition, source_offset, source_timestamp AS at
    FROM `{table}` WHERE {condition}
"""
_COMMITS = """
    SELECT topic, max(source_timestamp) AS at FROM resolution
    WHERE outcome = 'COMMIT' AND ({condition}) GROUP BY topic
"""
_OTHERS = """
    SELECT DISTINCT o.queue, o.offset
    FROM (SELECT * FROM half WHERE {condition}) h
    JOIN half o ON h.transaction_id = o.transaction_id
    ORDER BY o.queue, o.offset
"""
#: Half ids that a line names.
_NAMED = 10


class _Records(NamedTuple):
    """Records with a message, of one topic: how many, and when the last was stored."""

    topic: str
    number: int | None
    last: datetime


def remains(
    operation: Operation, ledger: Ledger, settings: Settings, table: OperationTable
) -> Iterator[str]:
    """Say, line by line, which topics have the messages, and until when."""
    halves = operation.halves
    remaining = [*_own(ledger, settings, halves), *_delivered(ledger, halves)]
    remaining += [_Records(topic, None, operation.begun_at) for topic in table.replayed_to(halves)]
    described = _described(settings, {records.topic for records in remaining})
    if not remaining:
        yield "Kafka has none of it any more"
    for records in sorted(remaining, key=lambda records: records.topic):
        yield _line(records, described[records.topic])
    if others := [str(half) for half in _others(ledger, halves)]:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield (
            f"{', '.join(others[:_NAMED])}{more} have the same transaction id, as a resumed "
            "message has: erase them too if they are to go"
        )


def _own(ledger: Ledger, settings: Settings, halves: Collection[HalfId]) -> Iterator[_Records]:
    """Return the records in the protocol's topics that Kafka still has."""
    names = Names(settings.topic_prefix)
    by_topic: dict[str, list[Any]] = {}
    for kind in copies(names):
        sql = _ROWS.format(table=kind.table, condition=kind.are_of(halves))
        for row in ledger.sql(sql).to_pylist():
            by_topic.setdefault(row["source_topic"], []).append(row)
    consumer = Consumer(reader_config(settings))
    try:
        for topic, rows in by_topic.items():
            firsts = _first_offsets(consumer, topic, {row["source_partition"] for row in rows})
            kept = [
                row for row in rows
                if firsts is None or row["source_offset"] >= firsts[row["source_partition"]]
            ]  # fmt: skip
            if kept:
                number = None if firsts is None else len(kept)
                yield _Records(topic, number, max(row["at"] for row in kept))
    finally:
        consumer.close()


def _first_offsets(
    consumer: Consumer, topic: str, partitions: Collection[int]
) -> dict[int, int] | None:
    """Return the first offset of each partition; None if Kafka does not tell."""
    try:
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), _ANSWER_SECONDS)
            for number in partitions
        }
    except KafkaException:
        return None
    return {number: first for number, (first, _) in ends.items()}


def _delivered(ledger: Ledger, halves: Collection[HalfId]) -> Iterator[_Records]:
    """Return the real topics: the ledger does not know the offsets of messages there."""
    condition = copies(Names())[0].are_of(halves)
    for row in ledger.sql(_COMMITS.format(condition=condition)).to_pylist():
        yield _Records(row["topic"], None, row["at"])


def _others(ledger: Ledger, halves: Collection[HalfId]) -> list[HalfId]:
    condition, known = copies(Names())[0].are_of(halves), set(halves)
    rows = ledger.sql(_OTHERS.format(condition=condition)).to_pylist()
    same_id = [HalfId(row["queue"], row["offset"]) for row in rows]
    return [half for half in same_id if half not in known]


def _described(
    settings: Settings, topics: Collection[str]
) -> dict[str, dict[str, str] | KafkaError]:
    """Return the settings of topics, or why they are not known."""
    if not topics:
        return {}
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    admin = admin_client(settings)
    answers = admin.describe_configs(asked, request_timeout=_ANSWER_SECONDS)
    configs: dict[str, dict[str, str] | KafkaError] = {}
    for resource, answer in answers.items():
        try:
            config = answer.result(2 * _ANSWER_SECONDS)
            configs[resource.name] = {name: entry.value for name, entry in config.items()}
        except KafkaException as error:
            configs[resource.name] = error.args[0]
        except FutureTimeout:
            configs[resource.name] = KafkaError(KafkaError._TIMED_OUT, "no answer in time")
    return configs


def _line(records: _Records, config: dict[str, str] | KafkaError) -> str:
    topic = printable(records.topic)
    if isinstance(config, KafkaError):
        if config.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return f"{topic}: Kafka has no such topic any more"
        return f"{topic}: until when Kafka has it is not known: {config.str()}"
    how_many = "a record" if records.number == 1 else f"{records.number} records"
    has = "may have it" if records.number is None else f"has {how_many} of it"
    return f"{topic} {has}, {_until(records.last, config)}"


def _until(last: datetime, config: dict[str, str]) -> str:
    """Say until when: a file of a partition goes when its last record is too old."""
    policy, kept_ms = config["cleanup.policy"], int(config["retention.ms"])
    compacted = (
        "until a later record has its key: send a tombstone, the key without a value, unless a "
        "later message of this key counts"
    )
    if "delete" not in policy:
        return compacted
    if kept_ms < 0:
        for_good = "for good: its retention.ms is -1"
        return f"{for_good}, or {compacted}" if "compact" in policy else for_good
    age = timedelta(milliseconds=kept_ms + int(config["segment.ms"])) + _LOOKED_FOR
    try:
        until = f"until {last + age:%Y-%m-%d %H:%M} (UTC) at the latest"
    except OverflowError:
        until = f"for good: its retention.ms is {kept_ms}"
    return f"{until}, or {compacted}" if "compact" in policy else until
