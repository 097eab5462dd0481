"""Records in queues, and a clock that is set."""

from __future__ import annotations

from confluent_kafka import Producer

from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS


class SetClock:
    """A monotonic clock in seconds that moves when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def write(settings: Settings, topic: str, *queues: int) -> None:
    """Write a record into each of these partitions."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for queue in queues:
        producer.produce(topic, b"record", partition=queue, on_delivery=_stored)
    assert producer.flush(PATIENCE_SECONDS) == 0


def _stored(error: object, _message: object) -> None:
    assert error is None, error
