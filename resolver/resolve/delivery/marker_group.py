"""The consumer group that keeps the marker, as a committed offset of `tx.marker`.

The resolver is the group's only member. A newer resolver takes the member's place: from then on
Kafka refuses the former resolver's markers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing
from dataclasses import asdict, replace
from threading import Event
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ...errors import MarkerMismatch
from ...kafka.clients import PROMPT_OPTIONS, client_config
from ...protocol import Names
from ...settings import Settings
from .marker import KNOWS_FAST, Marker

_TIMEOUT_SECONDS = 30.0
#: Seconds for which the first client asks to join, and their growth from one client to the next. A
#: coordinator that was cut off from the other brokers lets nobody join, and a client stays with it.
#: A group without members lets the first one wait for 3 s (`group.initial.rebalance.delay.ms`).
_ASK_SECONDS, _GROWTH = 3.5, 1.25
#: Seconds for one request for the marker; the coordinator may have moved, and the next finds it.
_REQUEST_SECONDS = 3.0
_PAUSE_SECONDS = 0.1
#: Seconds of a poll, which lasts to its end after the join too: every stall waits for a join.
_POLL_SECONDS = 0.02
#: Name of the one member. Whoever joins by this name replaces the former member at once.
_MEMBER = "resolver"
#: A day in ms, librdkafka's limit: the consumer reads nothing, so it need not poll.
_NEVER_MS = 86_400_000
#: Errors of a broker that is lost or has just started, or of a group moving to another broker.
_MOVING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
    }
)


class MarkerGroup:
    """The consumer group that keeps the marker of a topic prefix."""

    def __init__(self, settings: Settings) -> None:
        self._names = Names(settings.topic_prefix)
        self._settings = settings
        self._topic = self._names.marker
        self._name = self._names.resolver
        self._consumer = self._connected()
        self._member: Any = None

    def _connected(self, isolation: str = "read_committed") -> Consumer:
        ours = {
            **PROMPT_OPTIONS,
            "group.id": self._name,
            "group.instance.id": _MEMBER,
            "group.protocol": "classic",
            "partition.assignment.strategy": "range",
            "max.poll.interval.ms": _NEVER_MS,
            # We must not see the old value while an open transaction is being committed.
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
        return Consumer(client_config(self._settings, **ours))

    def join(self) -> None:
        """Become the member: Kafka then refuses the former member's markers, and our late ones.

        So the marker that is read after the join is the last one. If Kafka took a marker before,
        in a transaction that is yet to end, reading waits for it. Raises `KafkaException`.
        """
        until, seconds = time.monotonic() + _TIMEOUT_SECONDS, _ASK_SECONDS
        while not self._has_joined(min(seconds, until - time.monotonic())):
            if time.monotonic() > until:
                reason = f"the consumer group {self._name} can't be joined"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            seconds *= _GROWTH
        # Keep the present metadata: if librdkafka joins again by itself, another resolver may have
        # been the member meanwhile.
        self._member = self._consumer.consumer_group_metadata()

    def _has_joined(self, seconds: float) -> bool:
        """Let a new client ask to be the member; return whether it is, within `seconds`."""
        joined = Event()

        def take(consumer: Consumer, _partitions: list[TopicPartition]) -> None:
            consumer.assign([])  # an empty topic: nothing to fetch
            joined.set()

        self._consumer.close()
        self._consumer = self._connected()
        self._consumer.subscribe([self._topic], on_assign=take)
        until = time.monotonic() + seconds
        while not joined.is_set() and time.monotonic() < until:
            self._consumer.poll(_POLL_SECONDS)
        return joined.is_set()

    def generation(self) -> int:
        """Return the last marker's generation; an open transaction may change it."""
        with closing(self._connected("read_uncommitted")) as consumer:
            marker = self._decoded(self._committed(consumer))
        return 0 if marker is None else marker.generation

    def read(self, seconds: float = _TIMEOUT_SECONDS) -> Marker | None:
        """Return the marker; None if none was ever written.

        Raises `KafkaException`, also if Kafka does not tell the marker within `seconds`.
        """
        return self._decoded(self._committed(self._consumer, seconds))

    def _decoded(self, committed: TopicPartition) -> Marker | None:
        if committed.offset < 0:
            return None
        try:
            marker = Marker(**orjson.loads(committed.metadata or ""))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise MarkerMismatch(
                f"the marker of topic {self._topic} reads {committed.metadata!r}, which no "
                "resolver wrote: something else commits offsets in its group",
                remedy="find and stop it",
            ) from error
        if marker.needs not in ("", KNOWS_FAST):
            raise MarkerMismatch(
                f"{self._names.prefix}* was delivered up to {marker}, and needs {marker.needs}",
                remedy="start the version that ran last, or a newer one",
            )
        return marker

    def claimed(self, former: Marker | None, ours: Marker, is_new: bool, rebuild: bool) -> Marker:
        """Return the marker with which this run goes on; `former` is the last run's.

        Raises `MarkerMismatch` where this run would deliver once more what was delivered.
        """
        if former is not None and former.checkpoint == ours.checkpoint:
            return replace(former, instance=ours.instance)
        if rebuild:
            return ours if former is None else replace(ours, needs=former.needs)
        if former is not None:
            raise MarkerMismatch(
                f"{self._names.prefix}* was delivered up to {former}, and this is checkpoint "
                f"{ours.checkpoint}: everything would be delivered once more",
                remedy="start where that checkpoint is, or, if it is lost, with --rebuild, on a "
                "new one",
            )
        if not is_new or self._has_records(self._names.resolution):
            raise self.marker_gone()
        return ours

    def marker_gone(self) -> MarkerMismatch:
        """Return the error that says that no marker is left, though there was one."""
        return MarkerMismatch(
            f"{self._names.prefix}* has outcomes, and the marker of what was delivered is gone "
            "(Kafka forgets it after offsets.retention.minutes without a resolver): messages may "
            "be delivered once more",
            remedy="start with --rebuild, on a new checkpoint",
        )

    def _has_records(self, topic: str) -> bool:
        """Whether a topic holds, or once held, any record."""
        partitions = self._consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions
        return any(
            self._consumer.get_watermark_offsets(TopicPartition(topic, number), _TIMEOUT_SECONDS)[1]
            for number in partitions
        )

    def _committed(self, consumer: Consumer, seconds: float = _TIMEOUT_SECONDS) -> TopicPartition:
        until = time.monotonic() + seconds
        while True:
            request_seconds = min(_REQUEST_SECONDS, max(_PAUSE_SECONDS, until - time.monotonic()))
            try:
                partition = TopicPartition(self._topic, 0)
                committed = consumer.committed([partition], timeout=request_seconds)[0]
                if committed.error is not None:
                    raise KafkaException(committed.error)
                return committed
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def send(self, marker: Marker, producer: Producer, seconds: float) -> None:
        """Write the marker in the producer's transaction; Kafka may take `seconds`.

        Raises `KafkaException`.
        """
        # The offset is for people who look at the group; only the metadata counts.
        offset = marker.batch + 1
        fields = asdict(marker)
        if not marker.needs:
            del fields["needs"]  # any version may go on
        positions = [TopicPartition(self._topic, 0, offset, orjson.dumps(fields).decode())]
        # Read now: a thread that is late must not write as a member that joined since.
        send_offsets, member = producer.send_offsets_to_transaction, self._member
        _in_time(lambda: send_offsets(positions, member, seconds), seconds)

    def close(self) -> None:
        """Close the group's client."""
        self._consumer.close()


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
        reason = f"the offsets were not sent within {seconds:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason)) from None
