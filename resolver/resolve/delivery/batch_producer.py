"""One Kafka transaction: all of a batch's records and the marker, or nothing.

Last station: consumers read the messages in their real topics. Checks go to the agent,
`resolver/producer/agent/agent.py`. `resolver/ledger/landing.py` lands the protocol's topics.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer

from ...kafka.clients import LEADER_OPTIONS, PROMPT_OPTIONS, client_config
from ...kafka.epoch import RETRY_OPTIONS, Epoch
from ...protocol import Names
from ...protocol.partitioner import PARTITIONER
from ...settings import Settings
from ...spark.points import Point
from .generation import init_transactions
from .marker import Marker
from .marker_group import MarkerGroup
from .packed import Output
from .produce_errors import MESSAGE_ERRORS, ProduceFailures, ProduceRefused, serve
from .stalls import Stalled, described_as_stalled

logger = logging.getLogger(__name__)

#: The topics of unacknowledged records have stalled if none of these is acknowledged for this share
#: of the wait for an answer, and others were. The share is a second in the first attempt.
_NEXT_SHARE = 1 / 3
#: Seconds without an acknowledgement until the cluster is asked which topics have stalled. In each
#: flush every further wait is twice as long: Kafka may only be slow.
_ASK_SECONDS = 0.3
_POLL_EVERY = 500
_POLL_SECONDS = 0.1


class Narrow(NamedTuple):
    """The most bytes in flight for each topic, and messages of which each is sent alone."""

    topics: Mapping[str, int]
    alone: Set[Output] = frozenset()


class BatchProducer:
    """Writes each batch in a Kafka transaction; a newer producer of its id fences it.

    Kafka may take `stuck_seconds` to end the id's last transaction, and `answer_seconds` to answer.
    Raises `Stuck` if another generation's transactional id has to be used, and `KafkaException`.
    """

    def __init__(
        self,
        settings: Settings,
        group: MarkerGroup,
        generation: int,
        stuck_seconds: float,
        answer_seconds: float,
    ) -> None:
        self._settings = settings
        self._group = group
        self._generation = generation
        self._epoch = Epoch()
        self._failures = ProduceFailures(settings.topic_prefix)
        self._topics: set[str] = set()
        self._on_their_way: dict[str, list[Output]] = {}
        self._bytes: Counter[str] = Counter()
        ours: dict[str, Any] = {
            **RETRY_OPTIONS,
            **PROMPT_OPTIONS,
            **LEADER_OPTIONS,
            "transactional.id": Names(settings.topic_prefix).transactional_id(generation),
            "transaction.timeout.ms": settings.kafka_transaction_timeout_ms,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": PARTITIONER,
            "allow.auto.create.topics": False,
            # The client sets no limit: each topic's own limit decides.
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
            "delivery.report.only.error": True,
            "on_delivery": self._failures.report,
            "linger.ms": 5,
        }
        self._producer = Producer(client_config(settings, **ours))
        init_transactions(self._producer, stuck_seconds, answer_seconds)

    @property
    def is_spent(self) -> bool:
        """Whether a late request of this producer could land in its next transaction.

        If so, the caller makes a new producer. Kafka refuses such a request only once a newer
        producer has raised the epoch.
        """
        return self._epoch.is_spent

    def write(
        self, outputs: Iterable[Output], marker: Marker, narrow: Narrow, seconds: float
    ) -> None:
        """Write a batch's records and the marker in one Kafka transaction.

        Each call to Kafka may take `seconds`. The flush may take longer while Kafka acknowledges.

        The marker goes last: if Kafka has the marker, it has all records. Raises `ProduceRefused`,
        `Stalled` or `KafkaException`; after that this producer is of no use any more.
        """
        stamped = replace(marker, generation=self._generation)
        self._topics = set()
        self._producer.begin_transaction()
        logger.debug("batch %d: %s", marker.batch, Point.OPEN)
        try:
            count = self._produce_all(outputs, narrow, seconds)
            self._flush(seconds)
            with self._epoch.timed():
                self._group.send(stamped, self._producer, seconds)
        except KafkaException as error:
            refusal = self._failures.refusal(self._producer, self._on_their_way)
            if refusal is not None:
                raise refusal from error
            raise
        logger.debug("batch %d: %d %s", marker.batch, count, Point.WRITTEN)
        with self._epoch.timed():
            self._producer.commit_transaction(seconds)
        logger.debug("batch %d: %s, %d records", marker.batch, Point.COMMITTED, count)

    def drop(self) -> None:
        """Let go of an unfinished transaction: the next producer's start aborts it.

        Aborting it here may hang for the whole time-out, and the producer fails when used again.
        """
        self._producer.purge(blocking=False)
        del self._producer

    def _produce_all(self, outputs: Iterable[Output], narrow: Narrow, seconds: float) -> int:
        count = 0
        for count, output in enumerate(outputs, 1):
            self._topics.add(output.topic)
            if output.topic in narrow.topics:
                limit = 0 if output in narrow.alone else narrow.topics[output.topic]
                self._make_room(output, limit, seconds)
            self._produce(output)
            if count % _POLL_EVERY == 0:
                serve(self._producer.poll, 0)
        return count

    def _make_room(self, output: Output, limit: int, seconds: float) -> None:
        """Flush the topic's records on their way, if one batch could not hold this one too."""
        size = output.batch_bytes
        if self._on_their_way.get(output.topic) and self._bytes[output.topic] + size > limit:
            self._flush(seconds)
        self._on_their_way.setdefault(output.topic, []).append(output)
        self._bytes[output.topic] += size

    def _produce(self, output: Output) -> None:
        topic, key, value, headers, partition, timestamp_ms = output
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    timestamp=timestamp_ms,
                    headers=list(headers),
                )
                return
            except BufferError:
                serve(self._producer.poll, _POLL_SECONDS)
                self._failures.raise_first()
            except KafkaException as error:
                if error.args[0].code() in MESSAGE_ERRORS:
                    raise ProduceRefused(topic, error.args[0], [output]) from error
                raise

    def _flush(self, seconds: float) -> None:
        """Wait until each record is acknowledged, as long as acknowledgements keep coming.

        `commit` alone would pass over local refusals.
        """
        least, limit, since = len(self._producer), seconds, time.monotonic()
        pause = _ASK_SECONDS
        ask_at = since + pause
        while unsent := serve(self._producer.flush, _POLL_SECONDS):
            # Once a record was refused, the records behind it are not sent at all.
            self._failures.raise_first()
            if unsent < least:
                least, limit, since = unsent, seconds * _NEXT_SHARE, time.monotonic()
                ask_at = since + pause
            if time.monotonic() > since + limit:
                raise self._failures.stall(self._producer, unsent)
            if time.monotonic() > ask_at:
                self._raise_stalled()
                pause *= 2
                ask_at = time.monotonic() + pause
        self._failures.raise_first()
        self._on_their_way = {}
        self._bytes.clear()

    def _raise_stalled(self) -> None:
        """Raise `Stalled` if the cluster says of real topics that they take no records now."""
        prefix = self._settings.topic_prefix
        topics = {topic for topic in self._topics if not topic.startswith(prefix)}
        if topics and (stalled := described_as_stalled(self._settings, topics)):
            raise Stalled(stalled)
