"""Reads what became of transactions, from the outcomes that have landed and those behind them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..kafka.clients import reader_config
from ..protocol import Names, Outcome, Source, decode_resolution
from ..settings import Settings
from ..views import HalfId, Ledger

_LANDED = """
    SELECT r.source_partition AS partition, max(r.source_offset) AS last
    FROM resolution r GROUP BY r.source_partition
"""
_ENDED = """
    SELECT r.queue, r."offset" AS half, r.outcome, r.source FROM resolution r
    WHERE r.queue IS NOT NULL AND r."offset" BETWEEN {first} AND {last}
"""
_ANSWER_SECONDS = 10.0


class End(NamedTuple):
    """How a transaction ended, and who decided."""

    outcome: Outcome
    source: Source


class OutcomeReader:
    """The outcomes that have landed, and those that land has not yet taken."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._ledger = ledger
        names = Names(settings.topic_prefix)
        ours = {"auto.offset.reset": "earliest"}
        self._consumer = Consumer(reader_config(settings, **ours))
        try:
            self._consumer.assign(_behind(self._consumer, names.resolution, ledger))
        except BaseException:
            self._consumer.close()
            raise

    def of(self, halves: Collection[HalfId], seconds: float) -> Mapping[HalfId, End]:
        """Return the outcomes of these transactions, as many as come in time."""
        ends = self._landed(halves)
        missing = set(halves) - ends.keys()
        until = time.monotonic() + seconds
        try:
            while missing and time.monotonic() < until:
                for message in self._consumer.consume(500, 0.2):
                    error = message.error()
                    if error is not None:
                        if not error.retriable():
                            raise KafkaException(error)
                        continue
                    resolution = decode_resolution(message.value())
                    half = HalfId(resolution.queue, resolution.offset)
                    if half in missing:
                        missing.discard(half)
                        ends[half] = End(resolution.outcome, resolution.source)
        finally:
            self._consumer.close()
        return ends

    def _landed(self, halves: Collection[HalfId]) -> dict[HalfId, End]:
        """Return the outcomes that have landed: of an operation that goes on, some may have."""
        offsets = [half.offset for half in halves]
        if not offsets:
            return {}
        rows = self._ledger.sql(_ENDED.format(first=min(offsets), last=max(offsets))).to_pylist()
        ended = {
            HalfId(row["queue"], row["half"]): End(Outcome(row["outcome"]), Source(row["source"]))
            for row in rows
        }
        return {half: ended[half] for half in halves if half in ended}


def _behind(consumer: Consumer, topic: str, ledger: Ledger) -> list[TopicPartition]:
    """Return each partition of the resolution topic, at the first outcome that has not landed."""
    landed = {row["partition"]: row["last"] + 1 for row in ledger.sql(_LANDED).to_pylist()}
    metadata = consumer.list_topics(topic, _ANSWER_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return [TopicPartition(topic, number, landed.get(number, 0)) for number in metadata.partitions]
