"""Delivery's hold on a topic prefix: its place in the marker's group, and its producer.

The newest writer fences all others. A fenced writer looks at the marker, to know whether it was
replaced.
"""

from __future__ import annotations

import logging
import time

from ...errors import Replaced
from ...protocol import Names
from ...settings import Settings
from .batch_producer import BatchProducer
from .generation import Stuck
from .marker import Marker
from .marker_group import MarkerGroup

logger = logging.getLogger(__name__)

#: Seconds that Kafka may take to end a transaction; after them another transactional id is used.
#: The second number holds if a topic is known to have stalled.
_STUCK_SECONDS = 1.0
_STALLED_SECONDS = 0.3
#: Seconds after which the marker's group is joined again, between two batches. Otherwise librdkafka
#: gives the membership up after a day, `max.poll.interval.ms`.
_JOIN_SECONDS = 43_200.0


class CurrentProducer:
    """The present producer of this run (`instance`): dropped after a failure, and replaced."""

    def __init__(self, settings: Settings, instance: str) -> None:
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._instance = instance
        self.group = MarkerGroup(settings)
        self._producer: BatchProducer | None = None
        self._generation = 0
        self._joined_at = 0.0
        self._has_stalled = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a producer to write with."""
        return self._producer is not None

    @property
    def producer(self) -> BatchProducer:
        """The producer to write with."""
        if self._producer is None:
            raise RuntimeError("there is no producer to write with")
        return self._producer

    def take_over(self, seconds: float) -> Marker | None:
        """Fence the former writer, and return its marker; None if there never was one.

        Kafka may take `seconds` for an answer.
        """
        self._join()
        self._generation = self.group.generation()
        self._producer = self._connected(seconds)
        return self.group.read()

    def reconnect(self, seconds: float) -> Marker:
        """Make a new producer, which ends the last one's open transaction, and read the marker.

        Kafka may take `seconds` for an answer.

        The order counts. Once the group is joined, Kafka refuses another resolver's markers and our
        own late ones. So the marker that is read after the join is the last one.
        """
        self._join()
        self._producer = self._connected(seconds)
        self._has_stalled = False
        marker = self.group.read()
        if marker is not None and marker.instance == self._instance:
            return marker
        self.drop()
        if marker is None:
            raise self.group.marker_gone()
        raise Replaced(f"another resolver took over {self._names.prefix}*: {marker}")

    def drop(self, has_stalled: bool = False) -> None:
        """Use the producer no more; `has_stalled` says that a topic took no records."""
        self._has_stalled |= has_stalled
        if self._producer is not None:
            self._producer.drop()
            self._producer = None

    def drop_if_spent(self, marker: Marker) -> None:
        """Drop a producer in whose epoch a late request may be under way."""
        if self.producer.is_spent:
            logger.info("%s was written slowly: the next one is in a new epoch", marker)
            self.drop()

    def drop_if_old(self) -> None:
        """Drop a producer before librdkafka gives its membership up."""
        if time.monotonic() - self._joined_at > _JOIN_SECONDS:
            self.drop()

    def close(self) -> None:
        """Close the clients."""
        self.drop()
        self.group.close()

    def _join(self) -> None:
        self.group.join()
        self._joined_at = time.monotonic()

    def _connected(self, seconds: float) -> BatchProducer:
        """Make a producer, with the next transactional id if the last one can't be used."""
        stuck_seconds = _STALLED_SECONDS if self._has_stalled else _STUCK_SECONDS
        while True:
            try:
                return BatchProducer(
                    self._settings, self.group, self._generation, stuck_seconds, seconds
                )
            except Stuck:
                stuck = self._names.transactional_id(self._generation)
                self._generation += 1
                logger.warning(
                    "the last transaction of %s can't end, as a partition has no leader: "
                    "going on as %s",
                    stuck,
                    self._names.transactional_id(self._generation),
                )
