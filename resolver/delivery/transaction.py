"""One Kafka transaction: all of a batch's records and the marker, or nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from ..kafka import client_config
from ..protocol import Names
from ..settings import Settings
from .marker import Marker, MarkerGroup
from .packed import Message
from .targets import batch_bytes

logger = logging.getLogger(__name__)

_INIT_SECONDS = 60.0
#: Without a further record acknowledged.
_FLUSH_SECONDS = 120.0
_OFFSETS_SECONDS = 10.0
_COMMIT_SECONDS = 120.0
#: For how long a failed call's reason may still be on its way.
_REPORT_SECONDS = 1.0
_POLL_EVERY = 500
_POLL_SECONDS = 0.1


#: Errors of a whole topic, and of one message, that another attempt does not heal.
TOPIC_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
MESSAGE_ERRORS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)


class Refused(Exception):
    """A topic refuses records for good: one of `messages`, or, where there are none, any."""

    def __init__(self, topic: str, error: KafkaError, messages: Sequence[Message]) -> None:
        super().__init__(f"{topic}: {error.str()}")
        self.topic = topic
        self.error = error
        self.messages = messages

    @property
    def is_size(self) -> bool:
        """Whether it is for a record's size."""
        return self.error.code() in (
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.RECORD_LIST_TOO_LARGE,
        )


class Narrow(NamedTuple):
    """What may be on its way at a time: to some topics so many bytes, some messages only alone."""

    topics: Mapping[str, int]
    alone: Set[Message] = frozenset()


class TransactionalProducer:
    """The producer of a topic prefix: whoever made the newest one fences all others."""

    def __init__(self, settings: Settings, group: MarkerGroup) -> None:
        self._group = group
        self._failures: list[tuple[str, KafkaError]] = []
        self._on_their_way: dict[str, list[Message]] = {}
        self._bytes: Counter[str] = Counter()
        ours: dict[str, Any] = {
            "transactional.id": Names(settings.topic_prefix).resolver,
            "transaction.timeout.ms": settings.kafka_transaction_timeout_ms,
            "enable.idempotence": True,
            "acks": "all",
            # Java's default partitioning.
            "partitioner": "murmur2_random",
            "allow.auto.create.topics": False,
            # The broker's limit is to decide, topic by topic.
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
            "delivery.report.only.error": True,
            "on_delivery": self._report,
            "linger.ms": 5,
        }
        self._producer = Producer(client_config(settings, **ours))
        try:
            self._producer.init_transactions(_INIT_SECONDS)
        except BaseException:
            self.drop()  # it refers to its client, which refers to it: nothing else would free both
            raise

    def write(self, messages: Iterable[Message], marker: Marker, narrow: Narrow) -> None:
        """Write messages and the marker in one transaction.

        Raises `Refused` or `KafkaException`; then this producer is of no use any more.
        """
        self._producer.begin_transaction()
        logger.debug("batch %d: transaction open", marker.batch)
        try:
            count = self._send(messages, narrow)
            # While the records are on their way.
            self._send_offsets(marker)
            self._flush()
        except KafkaException:
            self._raise_refusal()
            raise
        logger.debug("batch %d: %d records written", marker.batch, count)
        self._producer.commit_transaction(_COMMIT_SECONDS)
        logger.debug("batch %d: transaction committed, %d records", marker.batch, count)

    def drop(self) -> None:
        """Let go of an unfinished transaction: the next producer's start aborts it.

        Aborting it here may hang for its whole time-out, and the producer fails when used again.
        """
        self._producer.purge(blocking=False)
        del self._producer

    def _send(self, messages: Iterable[Message], narrow: Narrow) -> int:
        count = 0
        for count, message in enumerate(messages, 1):
            if message.topic in narrow.topics:
                limit = 0 if message in narrow.alone else narrow.topics[message.topic]
                self._make_room(message, limit)
            self._produce(message)
            if count % _POLL_EVERY == 0:
                self._serve(self._producer.poll, 0)
        return count

    def _make_room(self, message: Message, limit: int) -> None:
        """Let what is on its way to the topic arrive, if one batch could not hold this as well."""
        size = batch_bytes(message)
        if self._on_their_way.get(message.topic) and self._bytes[message.topic] + size > limit:
            self._flush()
        self._on_their_way.setdefault(message.topic, []).append(message)
        self._bytes[message.topic] += size

    def _produce(self, message: Message) -> None:
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
                    raise Refused(topic, error.args[0], [message]) from error
                raise

    def _send_offsets(self, marker: Marker) -> None:
        positions, metadata = self._group.positions(marker), self._group.metadata()
        send_offsets = self._producer.send_offsets_to_transaction
        _in_time(lambda: send_offsets(positions, metadata, _OFFSETS_SECONDS), _OFFSETS_SECONDS)

    def _flush(self) -> None:
        """Wait until each record is acknowledged, as long as more and more of them are.

        `commit` alone would pass over local refusals.
        """
        least, give_up_at = None, 0.0
        while left := self._serve(self._producer.flush, _POLL_SECONDS):
            # Once one was refused, those behind it are not sent at all.
            self._raise_failures()
            if least is None or left < least:
                least, give_up_at = left, time.monotonic() + _FLUSH_SECONDS
            if time.monotonic() > give_up_at:
                said = (
                    f"{left} records were not sent, to {', '.join(self._not_sent())}: has each "
                    "partition there a leader, and enough replicas in sync?"
                )
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said))
        self._raise_failures()
        self._on_their_way = {}
        self._bytes.clear()

    def _not_sent(self) -> list[str]:
        """Give up what is on its way, so that its topics are reported, and return them."""
        self._producer.purge()
        self._serve(self._producer.poll, _REPORT_SECONDS)
        return sorted({topic for topic, _ in self._failures})

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Let the client call back; what it throws in the middle of that is its own error."""
        try:
            return call(seconds)
        except SystemError as thrown:
            # A fatal error, such as of being fenced, is set while other callbacks still run; they
            # may wipe it out.
            if isinstance(thrown.__cause__, KafkaException):
                raise thrown.__cause__ from None
            lost = KafkaError(KafkaError._FATAL, "the client failed and did not say of what")
            raise KafkaException(lost) from thrown

    def _report(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append((message.topic(), error))

    def _raise_refusal(self) -> None:
        """Raise `Refused` if a failed call was a refusal's consequence.

        Once one record of many is refused the transaction has failed: any call may say only that,
        and records behind it may be reported before it.
        """
        give_up_at = time.monotonic() + _REPORT_SECONDS
        while time.monotonic() < give_up_at:
            for topic, error in self._failures:
                if error.code() in TOPIC_ERRORS | MESSAGE_ERRORS:
                    raise Refused(topic, error, self._on_their_way.get(topic, []))
            self._serve(self._producer.poll, _POLL_SECONDS)

    def _raise_failures(self) -> None:
        if self._failures:
            topic, error = self._failures[0]
            raise KafkaException(KafkaError(error.code(), f"{topic}: {error.str()}"))


def _in_time(call: Callable[[], None], seconds: float) -> None:
    """Make a call that after a restart of the broker may never come back, whatever its own limit.

    That is librdkafka's issue 5456. Raises `KafkaException`, also where it did not come back: its
    thread is left behind.
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
