"""A client that asks for end offsets in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence, Set
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ..settings import Settings
from .clients import client_config
from .offset_answers import LATEST, OffsetAnswer, led_partitions, offset_answers

#: Options of a background client, also once it has taken over. Its lines would come every few
#: seconds while a broker is away: the warning that names the queue says more. Metrics would cost
#: each new client a request to each broker. A topic that is missing must not be made.
_OPTIONS = {"log_level": 0, "enable.metrics.push": False, "allow.auto.create.topics": False}

#: A topic and a queue: the partition with the queue's number.
QueuePartition = tuple[str, str]
OffsetFutures = dict[TopicPartition, Future[Any]]


class BackgroundClient:
    """A new client that asks about each partition by itself: a silent one holds up no other.

    It also asks for queues that have answered other clients: it is then connected to all brokers
    when it takes over.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[str],
        seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self.client = AdminClient(client_config(settings, **_OPTIONS))
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        self._partitions = {
            (topic, str(queue)) for queue in range(settings.queues) for topic in topics
        }
        self._futures: dict[QueuePartition, OffsetFutures] = {}
        self._asked = threading.Event()
        self._is_forgotten = False
        threading.Thread(target=self._ask, args=(topics, seconds), daemon=True).start()

    def _ask(self, topics: Sequence[str], seconds: float) -> None:
        """Ask about the partitions that have a leader, once the client knows the topics.

        While a topic or a leader is unknown, librdkafka's ListOffsets works on one object in two
        threads. Metadata that arrives then may end the process, by a segmentation fault.
        """
        try:
            led = [
                (topic, str(queue))
                for each in topics
                for topic, queue in led_partitions(self.client, {each}, seconds)
            ]
        except KafkaException:  # no broker has answered in time; the next client tries again
            return
        # Send a request for each partition: one for several would have no answer while one of them
        # is silent.
        self._futures = {
            (topic, queue): self.client.list_offsets(
                {TopicPartition(topic, int(queue)): LATEST},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=seconds,
            )
            for topic, queue in self._partitions.intersection(led)
        }
        self._asked.set()

    def is_over(self) -> bool:
        """Whether its time is up: librdkafka may never answer, whatever the time-out given."""
        return self._monotonic() > self._until

    def is_done(self) -> bool:
        """Whether all have answered, or its time is up."""
        if self.is_over():
            return True
        return self._asked.is_set() and all(future.done() for future in self._pending())

    def partitions(self) -> Set[QueuePartition]:
        """Return the partitions that it asks about."""
        return self._partitions

    def forget(self) -> None:
        """Forget all questions and answers."""
        self._is_forgotten = True

    def wait(self, seconds: float = float("inf"), besides: Collection[str] = ()) -> None:
        """Wait until all have answered, or its time is up; `seconds` at most.

        The queues `besides` are not waited for.
        """
        left = min(seconds, max(0.0, self._until - self._monotonic()))
        begun = time.monotonic()  # the clock of the waits
        if self._asked.wait(left):
            wait_for(self._pending(besides), max(0.0, left - (time.monotonic() - begun)))

    def answers(self) -> dict[QueuePartition, OffsetAnswer]:
        """Return the answers so far; raises `ResolverError` as `EndOffsets.after` does."""
        if self._is_forgotten:
            return {}
        return {
            partition: answer
            for partition, futures in self._futures.items()
            for answer in offset_answers(futures, 0.0)
        }

    def _pending(self, besides: Collection[str] = ()) -> list[Future[Any]]:
        return [
            future
            for (_, queue), futures in self._futures.items()
            if queue not in besides
            for future in futures.values()
        ]
