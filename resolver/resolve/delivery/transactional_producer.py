"""One Kafka transaction: all of a batch's records and the marker, or nothing.

Last station: consumers read the messages in their real topics. Checks go to the agent,
`resolver/producer/agent/agent.py`. `resolver/ledger/landing.py` lands the protocol's topics.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from ...kafka.clients import PROMPT_OPTIONS, client_config
from ...kafka.epoch import RETRY_OPTIONS, Epoch
from ...protocol import Names
from ...protocol.partitioner import PARTITIONER
from ...settings import Settings
from ...spark.points import Point
from .generation import init_transactions
from .marker import Marker
from .marker_group import MarkerGroup
from .packed import Output
from .produce_errors import MESSAGE_ERRORS, TOPIC_ERRORS, ProduceRefused
from .stalls import Stalled

logger = logging.getLogger(__name__)

#: The topics of unacknowledged records have stalled if none of these is acknowledged for this share
#: of the wait for an answer, and others were. The share is a second in the first attempt.
_NEXT_SHARE = 1 / 3
#: Seconds for which a failed call's reason may still be on its way.
_REPORT_SECONDS = 1.0
_POLL_EVERY = 500
_POLL_SECONDS = 0.1


class Narrow(NamedTuple):
    """The most bytes in flight for each topic, and messages of which each is sent alone."""

    topics: Mapping[str, int]
    alone: Set[Output] = frozenset()


class TransactionalProducer:
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
        self._group = group
        self._generation = generation
        self._prefix = settings.topic_prefix
        self._epoch = Epoch()
        self._failures: list[tuple[str, KafkaError]] = []
        self._on_their_way: dict[str, list[Output]] = {}
        self._bytes: Counter[str] = Counter()
        ours: dict[str, Any] = {
            **RETRY_OPTIONS,
            **PROMPT_OPTIONS,
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
            "on_delivery": self._report,
            "linger.ms": 5,
        }
        self._producer = Producer(client_config(settings, **ours))
        try:
            init_transactions(self._producer, stuck_seconds, answer_seconds)
        except BaseException:
            self.drop()  # this and its client refer to each other: nothing else would free both
            raise

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
        """Write a batch's records and the marker in one transaction; wait `seconds` for an answer.

        The marker goes last: if Kafka has the marker, it has all records. Raises `ProduceRefused`,
        `Stalled` or `KafkaException`; after that this producer is of no use any more.
        """
        self._producer.begin_transaction()
        logger.debug("batch %d: %s", marker.batch, Point.OPEN)
        try:
            count = self._produce_all(outputs, narrow, seconds)
            self._flush(seconds)
            self._send_offsets(marker, seconds)
        except KafkaException:
            self._raise_refusal()
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
        for count, message in enumerate(outputs, 1):
            if message.topic in narrow.topics:
                limit = 0 if message in narrow.alone else narrow.topics[message.topic]
                self._make_room(message, limit, seconds)
            self._produce(message)
            if count % _POLL_EVERY == 0:
                self._serve(self._producer.poll, 0)
        return count

    def _make_room(self, message: Output, limit: int, seconds: float) -> None:
        """Flush the topic's records on their way, if one batch could not hold this message too."""
        size = message.batch_bytes
        if self._on_their_way.get(message.topic) and self._bytes[message.topic] + size > limit:
            self._flush(seconds)
        self._on_their_way.setdefault(message.topic, []).append(message)
        self._bytes[message.topic] += size

    def _produce(self, message: Output) -> None:
        topic, key, value, headers, partition, timestamp_ms = message
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
                self._serve(self._producer.poll, _POLL_SECONDS)
                self._raise_failures()
            except KafkaException as error:
                if error.args[0].code() in MESSAGE_ERRORS:
                    raise ProduceRefused(topic, error.args[0], [message]) from error
                raise

    def _send_offsets(self, marker: Marker, seconds: float) -> None:
        stamped = replace(marker, generation=self._generation)
        positions, metadata = self._group.positions(stamped), self._group.metadata()
        send_offsets = self._producer.send_offsets_to_transaction
        with self._epoch.timed():
            _in_time(lambda: send_offsets(positions, metadata, seconds), seconds)

    def _flush(self, seconds: float) -> None:
        """Wait until each record is acknowledged, as long as acknowledgements keep coming.

        `commit` alone would pass over local refusals.
        """
        least, give_up_at = len(self._producer), time.monotonic() + seconds
        while left := self._serve(self._producer.flush, _POLL_SECONDS):
            # Once a record was refused, the records behind it are not sent at all.
            self._raise_failures()
            if left < least:
                least, give_up_at = left, time.monotonic() + seconds * _NEXT_SHARE
            if time.monotonic() > give_up_at:
                self._raise_stalled(left)
        self._raise_failures()
        self._on_their_way = {}
        self._bytes.clear()

    def _raise_stalled(self, left: int) -> None:
        """Raise `Stalled` if only records to real topics are left, else `KafkaException`."""
        self._producer.purge()  # so that the records' topics are reported
        self._serve(self._producer.poll, _REPORT_SECONDS)
        topics = {topic for topic, _ in self._failures}
        if topics and not any(topic.startswith(self._prefix) for topic in topics):
            raise Stalled(topics)
        said = (
            f"{left} records were not sent, to {', '.join(sorted(topics))}: has each partition "
            "there a leader, and enough replicas in sync?"
        )
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said))

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Let the client run callbacks; an error of its own may be hidden in a `SystemError`."""
        try:
            return call(seconds)
        except SystemError as thrown:
            # A fatal error, such as being fenced, is set while other callbacks still run. These
            # may wipe the error out.
            if isinstance(thrown.__cause__, KafkaException):
                raise thrown.__cause__ from None
            lost = KafkaError(KafkaError._FATAL, "the client failed and did not say of what")
            raise KafkaException(lost) from thrown

    def _report(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append((message.topic(), error))

    def _raise_refusal(self) -> None:
        """Raise `ProduceRefused` if a failed call was a refusal's consequence.

        Once one record of many is refused, the transaction has failed. Any call may say only that,
        and records behind the refused record may be reported before it.
        """
        give_up_at = time.monotonic() + _REPORT_SECONDS
        while time.monotonic() < give_up_at:
            for topic, error in self._failures:
                if error.code() in TOPIC_ERRORS | MESSAGE_ERRORS:
                    raise ProduceRefused(topic, error, self._on_their_way.get(topic, []))
            self._serve(self._producer.poll, _POLL_SECONDS)

    def _raise_failures(self) -> None:
        if self._failures:
            topic, error = self._failures[0]
            raise KafkaException(KafkaError(error.code(), f"{topic}: {error.str()}"))


def _in_time(call: Callable[[], None], seconds: float) -> None:
    """Make a call that may never come back after a broker's restart, whatever its own limit.

    The cause is librdkafka's issue 5456. Raises `KafkaException`, also if the call does not come
    back: its thread is left behind.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            call()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="send offsets", daemon=True).start()
    try:
        done.result(seconds + 1)
    except FutureTimeout:
        said = f"the offsets were not sent within {seconds:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said)) from None
