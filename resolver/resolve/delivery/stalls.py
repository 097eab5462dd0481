"""Topics that take no records now: no leader, a silent leader, or too few replicas in sync.

Kafka notices a silent broker only after `broker.session.timeout.ms`, 9 s. So the leaders are asked
themselves. If the leaders of our own topics don't answer either, Kafka or this machine is slow:
then nothing can be told.
"""

from __future__ import annotations

import logging
from collections.abc import Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ListOffsetsResultInfo,
    TopicMetadata,
)

from ...kafka.clients import admin_client
from ...kafka.offset_answers import LATEST
from ...kafka.targets import describe
from ...protocol import Names
from ...settings import Settings
from .known_targets import KnownTargets

logger = logging.getLogger(__name__)

#: Seconds in which a leader answers; after them it is taken for silent.
_ANSWER_SECONDS = 0.5
_DESCRIBE_SECONDS = 1.0


class Stalled(Exception):
    """Real topics take no records now: no record of the transaction is written.

    Never leaves delivery.
    """

    def __init__(self, topics: Set[str]) -> None:
        super().__init__(f"{', '.join(sorted(topics))} can't be written to now")
        self.topics = topics


class Stalls:
    """Finds out which real topics take no records now; for use by several threads."""

    def __init__(self, settings: Settings, targets: KnownTargets) -> None:
        self._settings = settings
        self._targets = targets
        self._own = Names(settings.topic_prefix).resolution
        self._admin: AdminClient | None = None

    def find(self, topics: Set[str]) -> set[str] | None:
        """Return those of the topics that take no records now; None if that can't be told."""
        if (asked := self._ask(topics)) is None:
            return None
        stopped, silent = asked
        # If our own topic's leader is silent too, no topic is at fault.
        return stopped or None if self._own in silent else stopped | silent

    def well(self, topics: Set[str]) -> Set[str]:
        """Return those of the topics that take records now; none if that can't be told."""
        if (asked := self._ask(topics)) is None:
            return set()
        stopped, silent = asked
        return set() if self._own in silent else topics - stopped - silent

    def _ask(self, topics: Set[str]) -> tuple[set[str], set[str]] | None:
        """Return the topics that take no records, and those with a silent leader, ours too."""
        try:
            # Keep the client: where connecting takes long, new ones would find leaders silent.
            admin = self._admin
            if admin is None:  # an idle client is falsy
                admin = self._admin = admin_client(self._settings)
            metadata = admin.list_topics(timeout=_DESCRIBE_SECONDS).topics
            stopped = {
                topic for topic in topics & metadata.keys() if self._is_stopped(metadata[topic])
            }
            silent = self._silent(admin, metadata, (topics - stopped) | {self._own})
        except (KafkaException, FutureTimeout) as error:
            self._admin = None  # it may have asked a silent broker
            _log_unknown(error)
            return None
        return stopped, silent

    def _is_stopped(self, topic: TopicMetadata) -> bool:
        fewest = self._targets.fewest_in_sync(str(topic.topic))
        # Kafka asks for no more replicas in sync than there are.
        return any(
            partition.leader < 0 or len(partition.isrs) < min(fewest, len(partition.replicas))
            for partition in topic.partitions.values()
        )

    def _silent(
        self, admin: AdminClient, metadata: dict[str, TopicMetadata], topics: Set[str]
    ) -> set[str]:
        """Return the topics with a leader that does not answer, or with none."""
        partitions = {
            TopicPartition(topic, number): partition.leader >= 0
            for topic in topics & metadata.keys()
            for number, partition in metadata[topic].partitions.items()
        }
        # ListOffsets of a partition without a leader is as unsafe as `ask_offsets` says.
        led = {partition: LATEST for partition, is_led in partitions.items() if is_led}
        answers = admin.list_offsets(led, request_timeout=_ANSWER_SECONDS) if led else {}
        answered = {partition for partition, answer in answers.items() if _has_come(answer)}
        return {partition.topic for partition in partitions.keys() - answered}


def _has_come(answer: Future[ListOffsetsResultInfo]) -> bool:
    """Whether a leader has answered: if not, librdkafka gives a negative offset or an error."""
    try:
        # Raising the future's exception would keep the future, and its client.
        return answer.exception(2 * _ANSWER_SECONDS) is None and answer.result().offset >= 0
    except FutureTimeout:
        return False


def described_as_stalled(settings: Settings, topics: Set[str]) -> set[str]:
    """Return those of the topics without a leader, or with too few replicas in sync.

    A silent leader is not noticed, as only the cluster is asked.
    """
    try:
        # A new client: one that is kept may go on asking a broker that has fallen silent.
        described = describe(admin_client(settings), sorted(topics), _ANSWER_SECONDS)
    except (KafkaException, FutureTimeout) as error:
        _log_unknown(error)
        return set()
    return {topic for topic, target in described.targets.items() if target.stalled}


def _log_unknown(error: Exception) -> None:
    logger.info("whether a topic has stalled can't be told: %s", str(error) or repr(error))
