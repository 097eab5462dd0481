"""Delivery: a batch's decisions, exactly once, in one Kafka transaction with the marker.

A batch that the marker holds already is not written again. `current_producer.py` sees to it that
there is one writer.

Next station: `batch_producer.py` writes the records and the marker.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from confluent_kafka import KafkaException

from ...errors import DeliveryError
from ...protocol import Names
from ...protocol.policy import Policy
from ...settings import Settings
from ...settings.groups import limits
from ..garbage import collection_put_off
from .activity import Activity
from .attempts import Attempts, answer_seconds
from .batch_producer import Narrow
from .check_topics import CheckTopics
from .current_producer import CurrentProducer
from .known_targets import KnownTargets
from .marker import KNOWS_FAST, NO_BATCH, Marker, progress
from .notices import Notices
from .packed import DecisionRecords, Output, as_output, unpack
from .parking import Parking
from .produce_errors import ProduceRefused
from .spans import Spans
from .stalls import Stalled
from .undeliverable import Undeliverable
from .visible_records import VisibleRecordsReader

logger = logging.getLogger(__name__)

#: Seconds between two chunks of parked messages: a waiting batch comes first.
_YIELD_SECONDS = 0.01
#: Seconds for which chunks are begun in a call. Meanwhile the fence timer sends no fences.
_RELEASE_SECONDS = 1.0
#: Attempts to take over, while the other resolver tries to stay.
_CLAIMS = 5


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


class Delivery:
    """The one writer of a prefix's decisions; safe for use by several threads."""

    def __init__(self, settings: Settings, checkpoint: str) -> None:
        self._names = Names(settings.topic_prefix)
        targets = KnownTargets(settings)
        self._undeliverable = Undeliverable(settings, targets)
        self._visible = VisibleRecordsReader(settings, targets)
        self._parking = Parking(settings, targets)
        self._notices = Notices(self._names)
        self.activity = Activity(self._names)
        self._spans = Spans()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._check_topics = CheckTopics(settings, targets, self._closing)
        self._marker = Marker(checkpoint, instance=uuid.uuid4().hex)
        self._current = CurrentProducer(settings, self._marker.instance)
        self._marked_at = 0.0
        self._slow_seconds = 0.0
        self._last_planned = NO_BATCH
        policy = Policy(settings.reject_transaction_message, limits(settings.groups))
        self._policy = DecisionRecords(as_output(policy.to_record(self._names.policy)))

    def start(
        self,
        is_new: bool,
        rebuild: bool = False,
        last_planned: Callable[[], int] = lambda: NO_BATCH,
    ) -> None:
        """Take over the topic prefix: fence the former writer, and claim the marker.

        `is_new`: the checkpoint has no batch yet. `last_planned` returns the last batch with a
        plan: an earlier run may have begun to write it.

        Raises `MarkerMismatch`, unless `rebuild`, if another checkpoint's batches were delivered,
        or if batches were delivered and their marker is lost.
        """
        with self._lock:
            for attempt in range(1, _CLAIMS + 1):
                try:
                    seconds = answer_seconds(2 ** (attempt - 1))
                    former = self._take_over(is_new, rebuild, seconds)
                    break
                except (KafkaException, FutureTimeout, ProduceRefused, Stalled) as error:
                    # The resolver that we fenced may have fenced us before it saw our claim.
                    self._current.drop()
                    failure = f"can't take over {self._names.prefix}*: {str(error) or repr(error)}"
                    if attempt == _CLAIMS:
                        raise DeliveryError(
                            failure, remedy="see the log of the broker, and start again"
                        ) from error
                    logger.warning("%s; trying again", failure)
            # Ask after the claim: until then the former run may plan and begin another batch.
            self._last_planned = last_planned()
            self._marked_at = time.monotonic()
        logger.info("took over %s*: %s", self._names.prefix, progress(former, self._marker))

    def _take_over(self, is_new: bool, rebuild: bool, seconds: float) -> Marker | None:
        former = self._current.take_over(seconds)
        is_rebuilt = former is None or former.checkpoint != self._marker.checkpoint
        self._marker = self._current.group.claimed(former, self._marker, is_new, rebuild)
        self._parking.load(former.lane if former else None)
        # Parked messages have no outcome: a rebuild decides them again.
        dropped = self._parking.lane.dropped() if is_rebuilt else []
        # Publish with the claim: a resolver that was replaced can't publish its policy after ours.
        outputs = _outputs([*dropped, self._policy])
        self._write_transaction(outputs, self._marker, Narrow({}), seconds)
        if dropped:
            self._parking.lane.drop()
        return former

    @collection_put_off()
    def deliver(self, batch: int, parts: list[bytes], has_fast: bool = False) -> None:
        """Write a batch's decisions, packed by queue and part, unless the marker has it.

        A batch without decisions is not written, unless it is the first that has read a fast half.
        From then on the marker says that a fast half was read. Raises `Replaced`,
        `MarkerMismatch` or `DeliveryError`.
        """
        digest = sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()
        with self._lock:
            if self._marker.has_batch(batch, digest):
                logger.info("batch %d was delivered before", batch)
                return
            decisions = [decision for part in parts for decision in unpack(part)]
            needs = KNOWS_FAST if has_fast else self._marker.needs
            if decisions or needs != self._marker.needs:
                self._undeliverable.forget_old()
                marker = replace(self._marker, batch=batch, digest=digest, needs=needs)
                self._write(decisions, marker, is_begun=batch <= self._last_planned)

    def _write(
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
        batch = _Batch(decisions, marker, is_begun, released)
        attempts = Attempts(marker.batch, self._first_wait(released), self._closing)
        while True:
            try:
                self._attempt(batch, attempts.seconds)
                break
            except Stalled as stalled:
                self._current.drop(has_stalled=True)
                is_news = self._parking.park(stalled)
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
        self._marker = batch.marker
        self._marked_at = time.monotonic()

    def _attempt(self, batch: _Batch, seconds: float) -> None:
        """Write what is not visible yet, unless an earlier attempt has succeeded after all."""
        if not self._current.is_connected:
            marker = self._reconnect(seconds)
            if self._has_succeeded(batch, marker):
                return
        # A new batch's commits pass these steps unchanged, unless their topic takes none now.
        self._check_topics.make_missing(batch.decisions)
        diverted = self._parking.divert(batch.decisions, batch.released, batch.is_begun)
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
        if batch.released is None:
            # Let the next batch be patient with a Kafka that is slow, not with one that was away.
            took_seconds = time.monotonic() - begun
            self._slow_seconds = min(seconds, max(2 * took_seconds, self._slow_seconds / 2))
        self._note_written(rest)

    def _note_written(self, written: list[DecisionRecords]) -> None:
        """Tell the lane, the notices, the activity and the spans what Kafka has committed."""
        self._parking.lane.wrote(written)
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
            self._parking.load(marker.lane)
        except BaseException:
            # Without the lane's present state no other attempt may use this producer.
            self._current.drop()
            raise
        return marker

    def _write_transaction(
        self, outputs: Iterable[Output], marker: Marker, narrow: Narrow, seconds: float
    ) -> None:
        # No parked message waits before this offset of the lane.
        marker = replace(marker, lane=self._parking.lane.begin)
        self._current.producer.write(outputs, marker, narrow, seconds)
        self._current.drop_if_spent(marker)

    def release(self) -> None:
        """Deliver parked messages to topics that take records again."""
        with self._lock:
            due = self._parking.due()
        topics = sorted(self._parking.ready(due)) if due else []
        until = time.monotonic() + _RELEASE_SECONDS
        while topics and time.monotonic() < until:
            topics = [
                topic
                for topic in topics
                if not self._closing.wait(_YIELD_SECONDS) and self._release(topic)
            ]

    def _release(self, topic: str) -> bool:
        """Deliver a chunk of a topic's parked messages; return whether there are more."""
        with self._lock:
            lane = self._parking.lane
            if topic not in lane.topics:
                return False
            try:
                seconds = self._first_wait(topic)
                self._connect(seconds)
                if topic not in lane.topics:
                    return False  # the last release has come through
                chunk = lane.chunk(topic, seconds)
                if chunk.decisions:
                    marker = replace(self._marker, release=uuid.uuid4().hex)
                    decisions = [*chunk.decisions, lane.release(chunk)]
                    self._write(decisions, marker, released=topic)
            except (Stalled, KafkaException, FutureTimeout) as error:
                logger.info("what waits for topic %s is written later: %s", topic, error)
                if topic in lane.topics:
                    lane.postpone(topic)
                return False
            lane.released(chunk)
            return topic in lane.topics

    def _first_wait(self, released: str | None) -> float:
        """Return for how many seconds a first attempt waits: longer after a failed release."""
        if released is None:
            return max(answer_seconds(), self._slow_seconds)
        return answer_seconds(self._parking.lane.pause(released))

    def _connect(self, seconds: float) -> None:
        """Have a producer, and the lane's present state.

        A failed release may have been committed: its chunk would be delivered twice.
        """
        if not self._current.is_connected:
            last = self._reconnect(seconds)
            self._marker = max(last, self._marker, key=lambda marker: marker.batch)

    @property
    def has_fast(self) -> bool:
        """Whether halves of this prefix were ever fast."""
        return self._marker.needs == KNOWS_FAST

    @property
    def has_parked(self) -> bool:
        """Whether messages wait for their topics."""
        return bool(self._parking.lane.topics)

    def keep_alive(self, seconds: float) -> None:
        """Write the marker again if its last write is older: Kafka forgets idle groups."""
        with self._lock:
            if time.monotonic() - self._marked_at > seconds:
                self._write([], self._marker)

    def marked(self) -> Marked:
        """Return the batch that the marker names, and when it was written."""
        # Without the lock: a batch that Kafka does not take holds it for minutes.
        age_seconds = time.monotonic() - self._marked_at
        return Marked(self._marker.batch, round(time.time() - age_seconds))

    def report(self) -> None:
        """Warn of records that ended badly, and say what was done in the last minute."""
        with self._lock:
            self._notices.warn()
            self.activity.tell()

    def replaced(self, seconds: float) -> bool:
        """Whether another resolver has taken over; False if Kafka does not tell in `seconds`.

        Batches wait meanwhile.
        """
        with self._lock:
            try:
                marker = self._current.group.read(seconds)
            except KafkaException:
                # The group's coordinator may have died, or hang. The producer would go on asking
                # it (librdkafka's issue 5456), and the next batch's first attempt would fail.
                self._current.drop()
                return False
            return marker is not None and marker.instance != self._marker.instance

    def give_up(self) -> None:
        """Retry no more: records that are not written yet are written after the next start."""
        self._closing.set()

    def close(self) -> None:
        """Give up the running attempts, and close the clients."""
        self.give_up()
        with self._lock:
            self._current.close()
        self._spans.close()


def _outputs(decisions: list[DecisionRecords]) -> Iterator[Output]:
    for message, resolution, _ in decisions:
        if message is not None:
            yield message
        if resolution is not None:
            yield resolution
