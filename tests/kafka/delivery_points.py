"""Acts of a test at the points of a delivery that its log tells of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from resolver.spark.points import Point


@contextmanager
def failing_once(point: Point, code: int = KafkaError._TIMED_OUT) -> Iterator[list[str]]:
    """Raise Kafka's error at the next such point, as if Kafka refused or its answer were lost."""

    def lose() -> None:
        raise KafkaException(KafkaError(code))

    with once_at(point, lose) as lost:
        yield lost


@contextmanager
def once_at(point: Point, act: Callable[[], None]) -> Iterator[list[str]]:
    """Act at the next such point that the log tells of; the line is kept then."""
    seen: list[str] = []

    class Acting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if point in (record.args or ()) and not seen:
                seen.append(record.getMessage())
                act()

    logger, acting = logging.getLogger("resolver.resolve.delivery"), Acting()
    logger.addHandler(acting)
    try:
        yield seen
    finally:
        logger.removeHandler(acting)
