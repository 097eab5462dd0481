"""Delivery: a batch's decisions, exactly once, in one Kafka transaction with the marker.

A batch that the marker holds already is not written again. The newest resolver of a topic prefix
fences all others; one that was fenced looks at the marker, to know whether it was replaced.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from hashlib import sha256

from confluent_kafka import KafkaException

from ..errors import DeliveryError, MarkerMismatch, Replaced, TxResolverError
from ..garbage import collection_put_off
from ..kafka import admin_client
from ..protocol import Names, fence_record
from ..settings import Settings
from ..topics import ensure_topics
from .marker import Marker, MarkerGroup
from .packed import Decision, Message, as_message, unpack
from .targets import Targets
from .transaction import Narrow, Refused, TransactionalProducer
from .undeliverable import Undeliverable

logger = logging.getLogger(__name__)

#: For how long an attempt is followed by another, and how long between two.
_RETRY_SECONDS = 600.0
_PAUSE_SECONDS = 1.0
#: How often taking over is tried, while the other one tries to stay.
_CLAIMS = 5
#: How many groups' check topics are made for a batch: meanwhile nothing is delivered.
_NEW_GROUPS = 100
#: A refusal that came later than that was waited for.
_SOON_SECONDS = 5.0


class Delivery:
    """The one writer of a topic prefix; safe for use by several threads."""

    def __init__(self, settings: Settings, checkpoint: str) -> None:
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._group = MarkerGroup(settings)
        self._undeliverable = Undeliverable(settings, Targets(settings))
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._producer: TransactionalProducer | None = None
        self._marker = Marker(checkpoint, instance=uuid.uuid4().hex)
        self._marked_at = 0.0

    def start(self, is_new: bool, rebuild: bool = False) -> None:
        """Take over the topic prefix: fence whoever wrote before, and claim the marker.

        With the claim goes a fence into each op partition: it makes the first batch. `is_new`: the
        checkpoint has no batch yet. Raises `MarkerMismatch` where another checkpoint's batches were
        delivered, or where the marker of batches that were is lost, unless `rebuild`.
        """
        with self._lock:
            for attempt in range(1, _CLAIMS + 1):
                try:
                    found = self._take_over(is_new, rebuild)
                    break
                except (KafkaException, Refused) as error:
                    # Whom we fenced may have fenced us, before it saw our claim.
                    self._drop()
                    if attempt == _CLAIMS:
                        said = f"can't take over {self._names.prefix}*: {error}"
                        raise DeliveryError(said) from error
            self._marked_at = time.monotonic()
        logger.info("took over %s*: before it was %s", self._names.prefix, found or "nobody's")

    @collection_put_off()
    def deliver(self, batch: int, parts: list[bytes]) -> None:
        """Write a batch's decisions, packed by queue and part, unless the marker has it.

        Raises `Replaced`, `MarkerMismatch` or `DeliveryError`.
        """
        digest = sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()
        with self._lock:
            if self._is_delivered(batch, digest):
                logger.info("batch %d was delivered before", batch)
                return
            decisions = [decision for part in parts for decision in unpack(part)]
            if decisions:
                self._undeliverable.forget_old()
                self._write(decisions, replace(self._marker, batch=batch, digest=digest))

    def keep_alive(self, seconds: float) -> None:
        """Write the marker again if that was not done for so long: Kafka forgets idle groups."""
        with self._lock:
            if time.monotonic() - self._marked_at > seconds:
                self._write([], self._marker)

    def replaced(self) -> bool:
        """Whether another resolver has taken over; False while Kafka can't tell."""
        with self._lock:
            try:
                found = self._group.read()
            except KafkaException:
                return False
            return found is not None and found.instance != self._marker.instance

    def give_up(self) -> None:
        """Retry no more: what is not written yet is written after the next start."""
        self._closing.set()

    def close(self) -> None:
        """Give up what is being retried, and close the clients."""
        self.give_up()
        with self._lock:
            self._drop()
            self._group.close()

    def _take_over(self, is_new: bool, rebuild: bool) -> Marker | None:
        self._producer = TransactionalProducer(self._settings, self._group)
        found = self._group.read()
        self._claim(found, is_new, rebuild)
        ops, queues = self._names.op, range(self._settings.queues)
        fences = [as_message(fence_record(ops, queue)) for queue in queues]
        self._producer.write(fences, self._marker, Narrow({}))
        return found

    def _claim(self, found: Marker | None, is_new: bool, rebuild: bool) -> None:
        mine = self._marker
        if found is not None and found.checkpoint == mine.checkpoint:
            self._marker = replace(found, instance=mine.instance)
        elif rebuild:
            return
        elif found is None:
            if not is_new or self._group.has_records(self._names.resolution):
                raise self._marker_gone()
        else:
            raise MarkerMismatch(
                f"{self._names.prefix}* was delivered up to {found}, and this is checkpoint "
                f"{mine.checkpoint}: everything would be delivered once more. Start where that "
                "checkpoint is, or, if it is lost, with --rebuild, on a new one"
            )

    def _marker_gone(self) -> MarkerMismatch:
        return MarkerMismatch(
            f"{self._names.prefix}* has outcomes, and the marker of what was delivered is gone "
            "(Kafka forgets it after offsets.retention.minutes without a resolver): messages may "
            "be delivered once more. Start with --rebuild, on a new checkpoint"
        )

    def _is_delivered(self, batch: int, digest: str) -> bool:
        marked = self._marker
        if batch == marked.batch and digest != marked.digest:
            raise MarkerMismatch(
                f"batch {batch} was delivered with digest {marked.digest}, and its replay has "
                f"{digest}: what decides has changed since. Finish the batch with the version "
                "that planned it, or start with --rebuild, on a new checkpoint"
            )
        if batch < marked.batch:
            raise MarkerMismatch(
                f"batch {batch} comes after batch {marked.batch} was delivered: the checkpoint is "
                "older than its marker, as one from a backup is. Start with --rebuild, on a new one"
            )
        return batch == marked.batch

    def _write(self, decisions: list[Decision], marker: Marker) -> None:
        """Write until it is written; what a topic refuses for good ends as undeliverable."""
        give_up_at = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                producer, found = (self._producer, None) if self._producer else self._reconnect()
                if found == marker:
                    break  # the commit came through, only its answer did not
                if found is not None and found.batch > marker.batch:
                    # So did that of a batch given up since, and what is kept alive is its marker.
                    marker = found
                    break
                self._make_check_topics(decisions)
                deliverable, narrow = self._undeliverable.sort(decisions)
                producer.write(_messages(deliverable), marker, narrow)
                break
            except Refused as refused:
                self._drop()
                if self._closing.is_set():
                    raise DeliveryError(f"batch {marker.batch} is not written yet") from refused
                self._undeliverable.learn(refused)
            except (KafkaException, FutureTimeout) as error:
                self._drop()
                self._pause(marker, error, give_up_at)
        self._marker = marker
        self._marked_at = time.monotonic()

    def _reconnect(self) -> tuple[TransactionalProducer, Marker]:
        """Make a new producer, which ends what the last one left open, and read the marker."""
        producer = self._producer = TransactionalProducer(self._settings, self._group)
        found = self._group.read()
        if found is not None and found.instance == self._marker.instance:
            return producer, found
        self._drop()
        if found is None:
            raise self._marker_gone()
        raise Replaced(f"another resolver took over {self._names.prefix}*: {found}")

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.drop()
            self._producer = None

    def _pause(self, marker: Marker, error: Exception, give_up_at: float) -> None:
        said = f"batch {marker.batch} is not written yet: {error}"
        if time.monotonic() > give_up_at or self._closing.is_set():
            raise DeliveryError(
                f"{said}; it is written after the next start. Where Kafka only is too slow for it, "
                "give it more time, kafka_transaction_timeout_ms"
            ) from error
        logger.warning("%s; trying again", said)
        self._closing.wait(_PAUSE_SECONDS)

    def _make_check_topics(self, decisions: list[Decision]) -> None:
        """Make the check topics of groups that are met for the first time, so many in a batch.

        Of others, and of a group whose topic can't be made, checks are left out, and tried again
        with the next ones.
        """
        topics = {decision.message.topic for decision in decisions if decision.message}
        checked = {topic: self._names.checked_group(topic) for topic in topics}
        groups = {topic: group for topic, group in checked.items() if group is not None}
        if not groups or not self._settings.create_check_topics:
            return
        missing = sorted(self._undeliverable.missing(set(groups)))[:_NEW_GROUPS]
        if missing:
            self._meet([groups[topic] for topic in missing])
        self._undeliverable.look_again()

    def _meet(self, groups: list[str]) -> None:
        """Make check topics at once; one that can't be made fails all, so then by halves.

        Not where it took long: whatever was waited for is waited for each time.
        """
        if self._closing.is_set():
            return
        logger.info("making the check topic of group %s", ", ".join(groups))
        begun = time.monotonic()
        try:
            ensure_topics(admin_client(self._settings), self._settings, groups)
        except (TxResolverError, KafkaException, FutureTimeout) as error:
            if len(groups) > 1 and time.monotonic() - begun < _SOON_SECONDS:
                middle = len(groups) // 2
                self._meet(groups[:middle])
                self._meet(groups[middle:])
                return
            logger.warning(
                "the check topic of group %s can't be made: %s. While it is not there its checks "
                "are left out, and halves that nobody ended are discarded after %d hours",
                ", ".join(groups),
                repr(error) if isinstance(error, FutureTimeout) else error,
                self._settings.file_reserved_hours,
            )


def _messages(decisions: list[Decision]) -> Iterator[Message]:
    for message, resolution, _ in decisions:
        if message is not None:
            yield message
        if resolution is not None:
            yield resolution
