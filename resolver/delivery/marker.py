"""The marker: which batch was delivered last, committed in the same transaction as the batch.

It is a committed offset of `tx.marker`, in a consumer group of which nobody is a member.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ..errors import MarkerMismatch
from ..kafka import client_config
from ..protocol import Names
from ..settings import Settings

#: No batch of the checkpoint was delivered yet.
NO_BATCH = -1
_TIMEOUT_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
#: A broker has just started, or the group is moving to another.
_MOVING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Marker:
    """Whose batches are delivered (`checkpoint`), by which run (`instance`), and how far."""

    checkpoint: str
    instance: str
    batch: int = NO_BATCH
    digest: str = ""

    def __str__(self) -> str:
        return f"batch {self.batch} of checkpoint {self.checkpoint}, instance {self.instance}"


class MarkerGroup:
    """The consumer group that keeps the marker of a topic prefix."""

    def __init__(self, settings: Settings) -> None:
        names = Names(settings.topic_prefix)
        self._topic = names.marker
        ours = {
            "group.id": names.resolver,
            # Of an open transaction that is just being committed we must not see the old value.
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(client_config(settings, **ours))

    def read(self) -> Marker | None:
        """Return the marker, None where none was ever written; raises `KafkaException`."""
        committed = self._committed()
        if committed.offset < 0:
            return None
        try:
            return Marker(**orjson.loads(committed.metadata or ""))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise MarkerMismatch(
                f"the marker of topic {self._topic} reads {committed.metadata!r}, which no "
                "resolver wrote; something else commits offsets in its group"
            ) from error

    def has_records(self, topic: str) -> bool:
        """Whether a topic holds, or once held, any record."""
        partitions = self._consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions
        return any(
            self._consumer.get_watermark_offsets(TopicPartition(topic, number), _TIMEOUT_SECONDS)[1]
            for number in partitions
        )

    def _committed(self) -> TopicPartition:
        until = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                partition = TopicPartition(self._topic, 0)
                committed = self._consumer.committed([partition], timeout=_TIMEOUT_SECONDS)[0]
                if committed.error is not None:
                    raise KafkaException(committed.error)
                return committed
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def positions(self, marker: Marker) -> list[TopicPartition]:
        """Return the marker as the offset to be committed."""
        # The number is for people who look at the group; what counts is the metadata.
        offset = marker.batch + 1
        metadata = orjson.dumps(asdict(marker)).decode()
        return [TopicPartition(self._topic, 0, offset, metadata)]

    def metadata(self) -> Any:
        """Return what `send_offsets_to_transaction` wants to know of the group."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Close the group's client."""
        self._consumer.close()
