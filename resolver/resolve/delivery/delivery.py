"""Delivery: a batch's decisions, exactly once, in one Kafka transaction with the marker.

A batch that the marker holds already is not written again. `current_producer.py` sees to it that
there is one writer.

Next station: `decision_writer.py` writes a batch's decisions.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from hashlib import sha256

from confluent_kafka import KafkaException

from ...errors import DeliveryError
from ...protocol import Names
from ...settings import Settings
from ..garbage import collection_put_off
from .activity import Activity
from .attempts import answer_seconds
from .decision_writer import DecisionWriter, Marked
from .marker import KNOWS_FAST, NO_BATCH, Marker, progress
from .packed import unpack
from .produce_errors import ProduceRefused
from .stalls import Stalled

logger = logging.getLogger(__name__)

#: Seconds between two chunks of parked messages: a waiting batch comes first.
_YIELD_SECONDS = 0.01
#: Seconds for which chunks are begun in a call. Meanwhile the fence timer sends no fences.
_RELEASE_SECONDS = 1.0
#: Attempts to take over, while the other resolver tries to stay.
_CLAIMS = 5


class Delivery:
    """The one writer of a prefix's decisions; safe for use by several threads."""

    def __init__(self, settings: Settings, checkpoint: str) -> None:
        self._names = Names(settings.topic_prefix)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        marker = Marker(checkpoint, instance=uuid.uuid4().hex)
        self._writer = DecisionWriter(settings, marker, self._closing)
        self._last_planned = NO_BATCH

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
                    former = self._writer.take_over(is_new, rebuild, seconds)
                    break
                except (KafkaException, FutureTimeout, ProduceRefused, Stalled) as error:
                    # The resolver that we fenced may have fenced us before it saw our claim.
                    self._writer.drop()
                    failure = f"can't take over {self._names.prefix}*: {str(error) or repr(error)}"
                    if attempt == _CLAIMS:
                        raise DeliveryError(
                            failure, remedy="see the log of the broker, and start again"
                        ) from error
                    logger.warning("%s; trying again", failure)
            # Ask after the claim: until then the former run may plan and begin another batch.
            self._last_planned = last_planned()
        took_over = progress(former, self._writer.marker)
        logger.info("took over %s*: %s", self._names.prefix, took_over)

    @collection_put_off()
    def deliver(self, batch: int, parts: list[bytes], has_fast: bool = False) -> None:
        """Write a batch's decisions, packed by queue and part, unless the marker has it.

        A batch without decisions is not written, unless it is the first that has read a fast half.
        From then on the marker says that a fast half was read. Raises `Replaced`,
        `MarkerMismatch` or `DeliveryError`.
        """
        digest = sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()
        with self._lock:
            last = self._writer.marker
            if last.has_batch(batch, digest):
                logger.info("batch %d was delivered before", batch)
                return
            decisions = [decision for part in parts for decision in unpack(part)]
            needs = KNOWS_FAST if has_fast else last.needs
            if decisions or needs != last.needs:
                marker = replace(last, batch=batch, digest=digest, needs=needs)
                self._writer.write(decisions, marker, is_begun=batch <= self._last_planned)

    def release(self) -> None:
        """Deliver parked messages to topics that take records again."""
        with self._lock:
            due = self._writer.parking.due()
        topics = sorted(self._writer.parking.ready(due)) if due else []
        until = time.monotonic() + _RELEASE_SECONDS
        while topics and time.monotonic() < until:
            topics = [
                topic
                for topic in topics
                if not self._closing.wait(_YIELD_SECONDS) and self._release(topic)
            ]

    def _release(self, topic: str) -> bool:
        with self._lock:
            return self._writer.release(topic)

    @property
    def activity(self) -> Activity:
        """What delivery has done, for its log and metrics."""
        return self._writer.activity

    @property
    def has_fast(self) -> bool:
        """Whether halves of this prefix were ever fast."""
        return self._writer.marker.needs == KNOWS_FAST

    @property
    def has_parked(self) -> bool:
        """Whether messages wait for their topics."""
        return bool(self._writer.parking.lane.topics)

    def keep_alive(self, seconds: float) -> None:
        """Write the marker again if its last write is older: Kafka forgets idle groups."""
        with self._lock:
            self._writer.keep_alive(seconds)

    def marked(self) -> Marked:
        """Return the batch that the marker names, and when it was written."""
        # Without the lock: a batch that Kafka does not take holds it for minutes.
        return self._writer.marked()

    def report(self) -> None:
        """Warn of records that ended badly, and say what was done in the last minute."""
        with self._lock:
            self._writer.report()

    def replaced(self, seconds: float) -> bool:
        """Whether another resolver has taken over; False if Kafka does not tell in `seconds`.

        Batches wait meanwhile.
        """
        with self._lock:
            return self._writer.replaced(seconds)

    def give_up(self) -> None:
        """Retry no more: records that are not written yet are written after the next start."""
        self._closing.set()

    def close(self) -> None:
        """Give up the running attempts, and close the clients."""
        self.give_up()
        with self._lock:
            self._writer.close()
