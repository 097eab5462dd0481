"""A batch's records that are visible in Kafka: read back if an attempt may have been torn.

No late request can commit a part of a batch (docs/design.md, "Why no late request tears a batch").
If a late request does so all the same, the visible records are found, and exactly the rest is
written. A batch whose first attempt succeeds needs none of this.
"""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from ...kafka.targets import Target
from ...protocol import Names, decode_resolution
from ...protocol.headers import headers_of
from ...settings import Settings
from .identity import Identity, given_up, identities, identity, identity_of
from .known_targets import KnownTargets
from .packed import DecisionRecords, Output
from .readback import EndHidden, Since, read_back

logger = logging.getLogger(__name__)


class VisibleRecords(NamedTuple):
    """The records of a batch that are visible."""

    identities: frozenset[Identity]
    names: Names

    def keep_visible_ends(self, decisions: list[DecisionRecords]) -> list[DecisionRecords]:
        """Keep visible ends: a delivered commit stays delivered, a given-up commit given up."""
        if not self.identities:
            return decisions
        return [self._with_visible_end(decision) for decision in decisions]

    def rest(self, decisions: list[DecisionRecords]) -> list[DecisionRecords]:
        """Return the records that are not visible yet."""
        return (
            [self._unwritten(decision) for decision in decisions] if self.identities else decisions
        )

    def _with_visible_end(self, decision: DecisionRecords) -> DecisionRecords:
        message = decision.message
        if message is None or decision.half_headers is None:
            return decision
        if self._has(message):
            return decision._replace(message=None, half_headers=None)
        if self.identities.isdisjoint(given_up(decision, self.names)):
            return decision
        return decision.undeliverable("so it was found before", self.names)

    def _unwritten(self, decision: DecisionRecords) -> DecisionRecords:
        message, resolution, half_headers = decision
        return DecisionRecords(
            None if message is None or self._has(message) else message,
            None if resolution is None or self._has(resolution) else resolution,
            half_headers,
        )

    def _has(self, message: Output) -> bool:
        return identity_of(message, self.names) in self.identities


class VisibleRecordsReader:
    """Finds out which of a batch's records are visible."""

    def __init__(self, settings: Settings, targets: KnownTargets) -> None:
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._targets = targets
        self._hidden: set[str] = set()

    def of(self, batch: int, decisions: list[DecisionRecords], seconds: float) -> VisibleRecords:
        """Return the visible records of decisions.

        Raises `KafkaException` if Kafka does not tell them; it has `seconds` to tell offsets.
        """
        if not decisions:
            return VisibleRecords(frozenset(), self._names)
        begun = time.monotonic()
        wanted = {own for decision in decisions for own in identities(decision, self._names)}
        try:
            visible = frozenset(self._read_back(decisions, wanted, seconds))
        except EndHidden as error:
            # Only the next attempt goes on without a real topic's end. It may be hidden for hours.
            self._hidden |= {topic for topic in error.topics if not self._is_ours(topic)}
            raise
        logger.info(
            "batch %d: took %.1f s to see what of it is in Kafka", batch, time.monotonic() - begun
        )
        if visible:
            logger.warning(
                "batch %d: %d of its records are visible already, and only the rest is written: "
                "a request that came late has committed them. Look with `txresolver audit "
                "--topics` whether all is well",
                batch,
                len(visible),
            )
        return VisibleRecords(visible, self._names)

    def _read_back(
        self, decisions: list[DecisionRecords], wanted: set[Identity], seconds: float
    ) -> set[Identity]:
        visible = set()
        for stored in read_back(self._settings, self._topics(decisions), seconds, self._hidden):
            headers = headers_of(stored)
            if headers is None:
                continue  # not ours: our headers' names are text
            own = identity(str(stored.topic()), stored.value(), headers, self._names)
            if own in wanted:
                visible.add(own)
        return visible

    def _topics(self, decisions: list[DecisionRecords]) -> dict[str, Since]:
        """Return the partitions that can have the records, and the records' least timestamps."""
        self._targets.forget()  # an attempt has failed: leaders may have moved
        oldest = self._oldest(decisions)
        targets = self._targets.look_up(set(oldest))
        return {topic: self._since(topic, target, oldest) for topic, target in targets.items()}

    def _since(self, topic: str, target: Target, oldest: dict[str, int | None]) -> Since:
        least = oldest[topic]
        # A commit has its half's timestamp. All other records were stamped by another clock.
        if least is not None and (target.is_stamped_by_broker or self._is_ours(topic)):
            least -= self._settings.broker_clock_skew_ms
        for number in target.leaderless:  # perhaps for hours: nobody else is to wait for it
            logger.warning("not looked at: partition %d of %s has no leader", number, topic)
        return Since([n for n in range(target.partitions) if n not in target.leaderless], least)

    def _oldest(self, decisions: list[DecisionRecords]) -> dict[str, int | None]:
        """Return the least timestamp (ms) that a record of the batch can have, by topic."""
        topics = {decision.message.topic for decision in decisions if decision.message}
        ours = {topic for topic in topics if self._is_ours(topic)}
        ours |= {self._names.resolution, self._names.discarded}
        decided = [
            decode_resolution(decision.resolution.value).decided_at
            for decision in decisions
            if decision.resolution is not None
        ]
        oldest: dict[str, int | None] = dict.fromkeys(ours, min(decided, default=None))
        for message, _, _ in decisions:
            if message is not None and message.topic not in ours:
                least = oldest.get(message.topic)
                stamp = message.timestamp_ms
                oldest[message.topic] = stamp if least is None else min(least, stamp)
        return oldest

    def _is_ours(self, topic: str) -> bool:
        return topic.startswith(self._names.prefix)
