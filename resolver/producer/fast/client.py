"""One client of the fast lane: a Kafka producer with a fast id that nobody else ever has."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from ...kafka.epoch import RETRY_OPTIONS, Epoch
from ...protocol import Record
from ...protocol.partitioner import PARTITIONER
from ..client_options import CLIENT_MAX_BYTES, IN_FLIGHT

_log = logging.getLogger(__name__)
#: Takes librdkafka's lines. It calls each lost id critical, and the lane goes on with a new one.
#: Why commits are slow, the lane itself says once a minute.
_unheard = logging.getLogger(f"{__name__}.unheard")
_unheard.disabled = True

#: Time in ms after which Kafka itself aborts a transaction, of a process that died in its middle.
_TRANSACTION_MS = 10_000
#: Seconds that Kafka may take to know a new fast id; seconds after which it is asked again, since
#: librdkafka itself waits for 500 ms.
_INIT_SECONDS = 10.0
_SLICE_SECONDS = 0.2
#: Seconds in which at least one more record of a group is acknowledged, else the group has failed.
_STALL_SECONDS = 2.0
_COMMIT_SECONDS = 5.0
_ABORT_SECONDS = 2.0
#: Seconds for which a failed call's reason may still be on its way.
_REPORT_SECONDS = 0.5
_POLL_SECONDS = 0.05
#: Errors of records that are only the consequence of another record's error.
_CONSEQUENCES = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._STATE,
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class GroupFailed(Exception):
    """A group is not, or not surely, committed; `topics` took no record of theirs."""

    def __init__(self, error: KafkaError, topics: frozenset[str] = frozenset()) -> None:
        super().__init__(error.str())
        self.error = error
        self.topics = topics


class FastClient:
    """Writes groups, one Kafka transaction at a time; after any failure it must be dropped.

    One thread uses it. `init` is called once, before any half names the fast id.
    """

    def __init__(self, options: Mapping[str, Any], fast_id: str, batch_bytes: int) -> None:
        self.fast_id = fast_id
        self._epoch = Epoch()
        self._failures: list[tuple[str, KafkaError]] = []
        self._is_open = False
        self._producer = Producer(
            {
                **options,
                **RETRY_OPTIONS,
                # A fast id that is revoked is a fatal error of its client, and none of the
                # application's: its own callback does not hear of it.
                "error_cb": _note_error,
                "logger": _unheard,
                "transactional.id": fast_id,
                "transaction.timeout.ms": _TRANSACTION_MS,
                "message.timeout.ms": _TRANSACTION_MS,
                "socket.timeout.ms": _TRANSACTION_MS,
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight": IN_FLIGHT,
                "partitioner": PARTITIONER,
                "allow.auto.create.topics": False,
                "message.max.bytes": CLIENT_MAX_BYTES,
                "batch.size": batch_bytes,
                # A flush follows the last record of a group, and does not wait for this.
                "linger.ms": 5,
                "delivery.report.only.error": True,
                "on_delivery": self._report,
            }
        )

    @property
    def is_spent(self) -> bool:
        """Whether a late EndTxn may reach Kafka in the next transaction, which must not begin."""
        return self._epoch.is_spent

    def init(self, stopping: threading.Event) -> None:
        """Make the fast id known to Kafka; raises `KafkaException`, also if `stopping` is set."""
        begun = time.monotonic()
        while True:
            try:
                self._producer.init_transactions(_SLICE_SECONDS)
                return
            except KafkaException as failed:
                waited = time.monotonic() - begun
                if not failed.args[0].retriable() or waited > _INIT_SECONDS or stopping.is_set():
                    raise

    def write(self, records: Iterable[Record]) -> None:
        """Write records in one transaction, and commit it; raises `GroupFailed`."""
        topic = None
        try:
            self._producer.begin_transaction()
            self._is_open = True
            for record in records:
                topic = record.topic
                self._produce(record)
            topic = None
            self._flush()
            self._is_open = False  # whoever asks for the commit does not ask for an abort
            with self._epoch.timed():
                self._producer.commit_transaction(_COMMIT_SECONDS)
        except KafkaException as error:
            raise self._failed(error.args[0], topic) from error

    def poll(self) -> None:
        """Serve librdkafka's callbacks: its log lines wait for that."""
        with suppress(KafkaException):
            self._serve(self._producer.poll, 0)

    def drop(self) -> None:
        """Let go of the client, in the background: its transaction is aborted, if one is open.

        Without the abort consumers of the same partitions would wait for Kafka's own time-out.
        """
        producer = self._producer
        # It and this object refer to each other: nothing else would free both.
        del self._producer
        threading.Thread(
            target=_end, args=(producer, self._is_open), name="txresolver-fast-end", daemon=True
        ).start()

    def _produce(self, record: Record) -> None:
        topic, key, value, headers, partition, timestamp_ms = record
        sent_headers: Any = headers
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, timestamp=timestamp_ms, headers=sent_headers
                )
                return
            except BufferError:
                self._serve(self._producer.poll, _POLL_SECONDS)
                self._raise_failure()

    def _flush(self) -> None:
        """Wait until each record is acknowledged: a commit alone would pass over local refusals."""
        least, give_up_at = len(self._producer), time.monotonic() + _STALL_SECONDS
        while unacknowledged := self._serve(self._producer.flush, _POLL_SECONDS):
            self._raise_failure()
            if unacknowledged < least:
                least, give_up_at = unacknowledged, time.monotonic() + _STALL_SECONDS
            if time.monotonic() > give_up_at:
                raise self._stalled(unacknowledged)
        self._raise_failure()

    def _stalled(self, unacknowledged: int) -> KafkaException:
        """Return the error of a group whose last records nobody acknowledges; name their topics."""
        self._producer.purge()
        self._serve(self._producer.poll, _REPORT_SECONDS)
        reason = f"{unacknowledged} records were not acknowledged"
        timed_out = KafkaError(KafkaError._TIMED_OUT, reason)
        self._failures = [(topic, timed_out) for topic, _ in self._failures]
        return KafkaException(timed_out)

    def _raise_failure(self) -> None:
        if self._failures:
            raise KafkaException(self._failures[0][1])

    def _failed(self, error: KafkaError, topic: str | None) -> GroupFailed:
        """Return the failure with its first cause; the call itself may name a consequence only.

        Once a record is refused the transaction has failed, and the records behind it may be
        reported before it.
        """
        if topic is not None and error.code() not in _CONSEQUENCES:
            return GroupFailed(error, frozenset({topic}))  # refused before it was sent
        give_up_at = time.monotonic() + _REPORT_SECONDS
        while True:
            causes = [
                (topic, cause)
                for topic, cause in self._failures
                if cause.code() not in _CONSEQUENCES
            ]
            if causes:
                return GroupFailed(causes[0][1], frozenset(topic for topic, _ in causes))
            if error.fatal() or not self._is_open or time.monotonic() > give_up_at:
                return GroupFailed(error)
            with suppress(KafkaException):
                self._serve(self._producer.poll, _POLL_SECONDS)

    def _serve(self, call: Any, seconds: float) -> int:
        """Let the client run callbacks; an error of its own may be hidden in a `SystemError`."""
        try:
            served: int = call(seconds)
        except SystemError as thrown:
            if isinstance(thrown.__cause__, KafkaException):
                raise thrown.__cause__ from None
            lost = KafkaError(KafkaError._FATAL, "the client failed and did not say of what")
            raise KafkaException(lost) from thrown
        return served

    def _report(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append((message.topic(), error))


def _end(producer: Producer, is_open: bool) -> None:
    if is_open:
        try:
            producer.abort_transaction(_ABORT_SECONDS)
        except KafkaException as error:
            _log.debug("a transaction of the fast lane is left to Kafka: %s", error)
    producer.purge(blocking=False)


def _note_error(error: KafkaError) -> None:
    _log.debug("Kafka, fast lane: %s", error.str())
