"""Writing decisions: in attempts, until Kafka has committed them and their marker.

An attempt that fails may have been committed all the same. So the next attempt reads the marker
first, and leaves out the records that are visible.

Next station: `batch_producer.py` writes the records and the marker.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from typing import NamedTuple

from confluent_kafka import KafkaException

from ...errors import DeliveryError
from ...protocol import Names
from ...protocol.policy import Policy
from ...settings import Settings
from ...settings.groups import limits
from .activity import Activity
from .attempts import Attempts, answer_seconds, tell_if_ended
from .batch_producer import Narrow
from .check_topics import CheckTopics
from .current_producer import CurrentProducer
from .known_targets import KnownTargets
from .marker import Marker
from .notices import Notices
from .packed import DecisionRecords, Output, as_output
from .parking import Parking
from .produce_errors import ProduceRefused
from .spans import Spans
from .stalls import Stalled
from .undeliverable import Undeliverable
from .visible_records import VisibleRecordsReader

logger = logging.getLogger(__name__)


class Marked(NamedTuple):
    """The last delivered batch, and when the marker was written, in seconds since 1970."""

    batch: int
    written_at: int


@dataclass
class _Batch:
    """Decisions and their marker. Once `is_begun`, some of the messages may be visible.

    `released` is the parked topic to which the messages go, or None for a batch of the query.
    """

    decisions: list[DecisionRecords]
    marker: Marker
    is_begun: bool
    released: str | None


class DecisionWriter:
    """Writes decisions, and knows the last `marker`. Whoever writes holds `Delivery`'s lock."""

    def __init__(self, settings: Settings, marker: Marker, closing: threading.Event) -> None:
        names, targets = Names(settings.topic_prefix), KnownTargets(settings)
        self._undeliverable = Undeliverable(settings, targets)
        self._visible = VisibleRecordsReader(settings, targets)
        self.parking = Parking(settings, targets)
        self._notices = Notices(names)
        self.activity = Activity(names)
        self._spans = Spans()
        self._closing = closing
        self._check_topics = CheckTopics(settings, targets, closing)
        self.marker = marker
        self._current = CurrentProducer(settings, marker.instance)
        self._marked_at = 0.0
        self._slow_seconds = 0.0
        policy = Policy(settings.reject_transaction_message, limits(settings.groups))
        self._policy = DecisionRecords(as_output(policy.to_record(names.policy)))

    def take_over(self, is_new: bool, rebuild: bool, seconds: float) -> Marker | None:
        """Fence the former writer, claim the marker, and return the former one.

        Kafka may take `seconds` for an answer. Raises `MarkerMismatch` as `Delivery.start` does.
        """
        former = self._current.take_over(seconds)
        is_rebuilt = former is None or former.checkpoint != self.marker.checkpoint
        self.marker = self._current.group.claimed(former, self.marker, is_new, rebuild)
        self.parking.load(former.lane if former else None)
        # Parked messages have no outcome: a rebuild decides them again.
        dropped = self.parking.lane.dropped() if is_rebuilt else []
        # Publish with the claim: a resolver that was replaced can't publish its policy after ours.
        outputs = _outputs([*dropped, self._policy])
        self._write_transaction(outputs, self.marker, Narrow({}), seconds)
        if dropped:
            self.parking.lane.drop()
        self._marked_at = time.monotonic()
        return former

    def write(
        self,
        decisions: list[DecisionRecords],
        marker: Marker,
        is_begun: bool = False,
        released: str | None = None,
    ) -> None:
        """Write, in attempts until one succeeds; a message refused for good ends as undeliverable.

        A batch that `is_begun` may have visible records: these are not written again. Messages are
        parked if their topic takes none now.

        A release is tried once, as batches wait meanwhile. Raises `Stalled` if the topic `released`
        takes no records, and `KafkaException` if the release fails otherwise.
        """
        self._current.drop_if_old()
        if released is None:
            self._undeliverable.forget_old()
        batch = _Batch(decisions, marker, is_begun, released)
        attempts = Attempts(marker.batch, self._first_wait(released), self._closing)
        while True:
            try:
                self._attempt(batch, attempts.seconds)
                break
            except Stalled as stalled:
                self._current.drop(has_stalled=True)
                is_news = self.parking.park(stalled)
                if released in stalled.topics:
                    raise
                if is_news:
                    continue
                error: Exception = stalled
            except ProduceRefused as refused:
                self._current.drop()
                if self._closing.is_set():
                    raise DeliveryError(f"batch {marker.batch} is not written yet") from refused
                self._undeliverable.learn(refused)
                continue
            except (KafkaException, FutureTimeout) as failed:
                self._current.drop()
                if released is not None:
                    if self._reconnect(attempts.seconds) == batch.marker:
                        break
                    raise
                error = failed
            attempts.wait_for_next(error)
        self.marker = batch.marker
        self._marked_at = time.monotonic()

    def release(self, topic: str) -> bool:
        """Write a chunk of a topic's parked messages; return whether there are more."""
        lane = self.parking.lane
        if topic not in lane.topics:
            return False
        try:
            seconds = self._first_wait(topic)
            self._connect(seconds)
            if topic not in lane.topics:
                return False  # the last release has come through
            chunk = lane.chunk(topic, seconds)
            if chunk.decisions:
                marker = replace(self.marker, release=uuid.uuid4().hex)
                decisions = [*chunk.decisions, lane.release(chunk)]
                self.write(decisions, marker, released=topic)
        except (Stalled, KafkaException, FutureTimeout) as error:
            logger.info("what waits for topic %s is written later: %s", topic, error)
            if topic in lane.topics:
                lane.postpone(topic)
            return False
        lane.released(chunk)
        return topic in lane.topics

    def keep_alive(self, seconds: float) -> None:
        """Write the marker again if its last write is older."""
        if time.monotonic() - self._marked_at > seconds:
            self.write([], self.marker)

    def marked(self) -> Marked:
        """Return the batch that the marker names, and when it was written."""
        age_seconds = time.monotonic() - self._marked_at
        return Marked(self.marker.batch, round(time.time() - age_seconds))

    def replaced(self, seconds: float) -> bool:
        """Whether another resolver has taken over; False if Kafka does not tell in `seconds`."""
        try:
            marker = self._current.group.read(seconds)
        except KafkaException:
            # The group's coordinator may have died, or hang. The producer would go on asking
            # it (librdkafka's issue 5456), and the next batch's first attempt would fail.
            self.drop()
            return False
        return marker is not None and marker.instance != self.marker.instance

    def report(self) -> None:
        """Warn of records that ended badly, and say what was done in the last minute."""
        self._notices.warn()
        self.activity.tell()

    def drop(self) -> None:
        """Drop the present producer: the next write makes another."""
        self._current.drop()

    def close(self) -> None:
        """Close the clients."""
        self._current.close()
        self._spans.close()

    def _attempt(self, batch: _Batch, seconds: float) -> None:
        """Write what is not visible yet, unless an earlier attempt has succeeded after all."""
        if not self._current.is_connected:
            marker = self._reconnect(seconds)
            if self._has_succeeded(batch, marker):
                return
        # A new batch's commits pass these steps unchanged, unless their topic takes none now.
        topics = {decision.message.topic for decision in batch.decisions if decision.message}
        self._check_topics.make_missing(topics)
        diverted = self.parking.divert(batch.decisions, topics, batch.released, batch.is_begun)
        visible = self._visible.of(batch.marker.batch, diverted if batch.is_begun else [], seconds)
        deliverable, narrow = self._undeliverable.writable(visible.keep_visible_ends(diverted))
        rest = visible.rest(deliverable)
        was_begun, batch.is_begun = batch.is_begun, True
        begun = time.monotonic()
        try:
            self._write_transaction(_outputs(rest), batch.marker, narrow, seconds)
        except (Stalled, ProduceRefused):
            batch.is_begun = was_begun  # this attempt sent no commit
            raise
        except KafkaException as error:
            tell_if_ended(error, batch.marker.batch, batch.released)
            raise
        if batch.released is None:
            # Let the next batch be patient with a Kafka that is slow, not with one that was away.
            took_seconds = time.monotonic() - begun
            self._slow_seconds = min(seconds, max(2 * took_seconds, self._slow_seconds / 2))
        self._note_written(rest)

    def _note_written(self, written: list[DecisionRecords]) -> None:
        """Tell the lane, the notices, the activity and the spans what Kafka has committed."""
        self.parking.lane.wrote(written)
        self._notices.count(written)
        self.activity.count(written)
        self._spans.tell(written)

    def _has_succeeded(self, batch: _Batch, marker: Marker) -> bool:
        """Whether the marker that is read after a failure says that nothing is left to write."""
        if marker == batch.marker:
            return True  # the commit succeeded, only its answer was lost
        if marker.batch > batch.marker.batch:
            # A batch that was given up since has been committed too: keep its marker.
            if batch.released is None:
                batch.marker = marker
                return True
            batch.marker = replace(marker, release=batch.marker.release)
        return False

    def _reconnect(self, seconds: float) -> Marker:
        """Make a new producer, load the lane, and return the last marker that was committed."""
        marker = self._current.reconnect(seconds)
        try:
            self.parking.load(marker.lane)
        except BaseException:
            # Otherwise a later attempt would use this producer with an old state of the lane.
            self._current.drop()
            raise
        return marker

    def _first_wait(self, released: str | None) -> float:
        """Return for how many seconds a first attempt waits: longer after a failed release."""
        if released is None:
            return max(answer_seconds(), self._slow_seconds)
        return answer_seconds(self.parking.lane.pause(released))

    def _connect(self, seconds: float) -> None:
        """Have a producer, and the lane's present state.

        A failed release may have been committed: its chunk would be delivered twice.
        """
        if not self._current.is_connected:
            last = self._reconnect(seconds)
            self.marker = max(last, self.marker, key=lambda marker: marker.batch)

    def _write_transaction(
        self, outputs: Iterable[Output], marker: Marker, narrow: Narrow, seconds: float
    ) -> None:
        # No parked message waits before this offset of the lane.
        marker = replace(marker, lane=self.parking.lane.begin)
        self._current.producer.write(outputs, marker, narrow, seconds)
        self._current.drop_if_spent(marker)


def _outputs(decisions: list[DecisionRecords]) -> Iterator[Output]:
    for message, resolution, _ in decisions:
        if message is not None:
            yield message
        if resolution is not None:
            yield resolution
