"""The brokers' clocks beside ours: each leader of an op partition stamps a fence.

A fence is an empty record, as the resolver sends them. One more does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

from ..kafka.clients import client_config
from ..protocol import Names, fence_record
from ..settings import Settings
from .finding import Finding, error, ok, warning

_TIMEOUT_SECONDS = 15.0
#: Difference in ms that is not worth a word: checks wait for seconds.
_SMALL_MS = 1_000


def clocks(cluster: ClusterMetadata, settings: Settings) -> Iterator[Finding]:
    """Yield the difference of each broker's clock to ours."""
    topic = cluster.topics.get(Names(settings.topic_prefix).op)
    if topic is None:
        return  # `topics` tells that it is missing
    leaders = {
        number: partition.leader
        for number, partition in topic.partitions.items()
        if partition.leader >= 0
    }
    first = {broker: number for number, broker in reversed(leaders.items())}
    stamps = _Stamps(settings)
    for broker, queue in sorted(first.items()):
        yield _finding(broker, stamps.differ(queue), settings)
    stamps.close()


class _Stamps:
    def __init__(self, settings: Settings) -> None:
        self._names = Names(settings.topic_prefix)
        ours = {"acks": "all", "message.timeout.ms": round(_TIMEOUT_SECONDS * 1_000)}
        self._producer = Producer(client_config(settings, **ours))

    def differ(self, queue: int) -> int | str:
        """Return by how many ms a leader's clock is ahead of ours; a text if it can't be told.

        A clock that lies between sending and acknowledgement does not differ.
        """
        answers: list[tuple[KafkaError | None, int]] = []
        fence = fence_record(self._names.op, queue)
        # Connect first: otherwise the time of connecting would be part of the answer.
        self._producer.list_topics(self._names.op, _TIMEOUT_SECONDS)
        sent_ms = _now_ms()
        self._producer.produce(
            fence.topic,
            fence.value,
            partition=queue,
            headers=list(fence.headers),
            on_delivery=_into(answers),
        )
        self._producer.flush(_TIMEOUT_SECONDS)
        stored_ms = _now_ms()
        if not answers:
            return "no answer"
        failed, stamp = answers[0]
        if failed is not None:
            return str(failed.str())
        return min(0, stamp - sent_ms) or max(0, stamp - stored_ms)

    def close(self) -> None:
        self._producer.close()


def _into(answers: list[tuple[KafkaError | None, int]]) -> Callable[[Any, Message], None]:
    def note(failed: KafkaError | None, message: Message) -> None:
        answers.append((failed, message.timestamp()[1]))

    return note


def _finding(broker: int, differs: int | str, settings: Settings) -> Finding:
    about = f"clock of broker {broker}"
    if isinstance(differs, str):
        remedy = "grant this login Write on the op topic, as the resolver has it"
        return warning(about, f"it can't be told: {differs}", remedy)
    seen = f"{abs(differs):,} ms {'ahead of' if differs > 0 else 'behind'} ours"
    if abs(differs) > settings.broker_clock_skew_ms:
        remedy = "let NTP set both clocks: checks and discards come at the wrong time"
        return error(about, seen, remedy)
    if abs(differs) > _SMALL_MS:
        return warning(about, seen, "let NTP set both clocks: ages and due times are shifted by it")
    return ok(about, "as ours" if not differs else seen)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
