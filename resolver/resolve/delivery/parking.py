"""Parked topics: a topic is parked when it stalls, until it takes records again."""

from __future__ import annotations

import logging
from collections.abc import Set
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException

from ...protocol import Names
from ...settings import Settings
from .known_targets import KnownTargets
from .lane import Lane
from .packed import DecisionRecords
from .stalls import Stalled, Stalls

logger = logging.getLogger(__name__)


class Parking:
    """Keeps messages to topics that take none out of the way of all other messages."""

    def __init__(self, settings: Settings, targets: KnownTargets) -> None:
        self._prefix = settings.topic_prefix
        self._lane_topic = Names(settings.topic_prefix).parked
        self._targets = targets
        self.stalls = Stalls(settings, targets)
        self.lane = Lane(settings)

    def load(self, begin: int | None) -> None:
        """Find out which messages are parked; none before the lane's offset `begin`."""
        self._targets.look_up({self._lane_topic})  # ask now: the cluster may not answer later
        self.lane.load(begin)

    def park(self, stall: Stalled) -> bool:
        """Park topics that have stalled; False if all of them were parked already."""
        before = len(self.lane.topics)
        self.lane.park(stall.topics, "it has no leader, a silent one, or too few replicas in sync")
        return len(self.lane.topics) > before

    def divert(
        self,
        decisions: list[DecisionRecords],
        topics: Set[str],
        released: str | None,
        is_begun: bool,
    ) -> list[DecisionRecords]:
        """Return decisions in which messages that wait for a topic go into the lane instead.

        `topics` has the topics of their messages. Kafka is asked about those that may have stalled.
        If the batch `is_begun`, Kafka is asked about all of them: a topic that is not parked will
        be read back.
        """
        self._park_stalled(topics, released, is_begun)
        if not self.lane.topics:
            return decisions
        target = self._targets.look_up({self._lane_topic}).get(self._lane_topic)
        return self.lane.divert(decisions, target and target.max_bytes, released)

    def _park_stalled(self, topics: Set[str], released: str | None, is_begun: bool) -> None:
        """Park topics that, as the cluster says itself, take no records; before writing to them."""
        real = {topic for topic in topics if not topic.startswith(self._prefix)}
        targets = self._targets.look_up(real - self.lane.topics - {released})
        suspects = {topic for topic, target in targets.items() if target.stalled or is_begun}
        if suspects and (stalled := self.stalls.find(suspects)):
            self.park(Stalled(stalled))

    def due(self) -> set[str]:
        """Return the parked topics to be looked at now; none if Kafka does not describe them."""
        due = set(self.lane.due())
        try:
            self._targets.look_up(due)  # `ready` needs their `min.insync.replicas`
        except (KafkaException, FutureTimeout) as error:
            logger.info("parked topics can't be described: %s", str(error) or repr(error))
            return set()
        return due

    def ready(self, topics: Set[str]) -> Set[str]:
        """Return the parked topics that take records again, or are gone."""
        return self.stalls.well(topics)
