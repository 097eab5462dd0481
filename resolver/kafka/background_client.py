"""A client that asks for end offsets in the background."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

from ..settings import Settings
from .clients import client_config
from .offset_answers import LATEST, OffsetAnswer, offset_answers

#: Options of a background client, also once it has taken over. Its lines would come every few
#: seconds while a broker is away: the warning that names the queue says more. Metrics would cost
#: each new client a request to each broker.
_SILENT = {"log_level": 0, "enable.metrics.push": False}

#: A topic and a queue: the partition with the queue's number.
QueuePartition = tuple[str, str]


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
        self.client = AdminClient(client_config(settings, **_SILENT))
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        # Send a request for each partition: one for several would have no answer while one of them
        # has no leader.
        self._futures = {
            (topic, str(queue)): self.client.list_offsets(
                {TopicPartition(topic, queue): LATEST},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=seconds,
            )
            for queue in range(settings.queues)
            for topic in topics
        }

    def is_over(self) -> bool:
        """Whether its time is up: librdkafka may never answer, whatever the time-out given."""
        return self._monotonic() > self._until

    def is_done(self) -> bool:
        """Whether all have answered, or its time is up."""
        return self.is_over() or all(future.done() for future in self._pending())

    def partitions(self) -> Set[QueuePartition]:
        """Return the partitions that it asks about."""
        return self._futures.keys()

    def forget(self) -> None:
        """Forget all questions and answers."""
        self._futures = {}

    def wait(self, seconds: float = float("inf"), besides: Collection[str] = ()) -> None:
        """Wait until all have answered, or its time is up; `seconds` at most.

        The queues `besides` are not waited for.
        """
        left = max(0.0, self._until - self._monotonic())
        wait_for(self._pending(besides), min(seconds, left))

    def answers(self) -> dict[QueuePartition, OffsetAnswer]:
        """Return the answers so far; raises `ResolverError` as `EndOffsets.after` does."""
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
