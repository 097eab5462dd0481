"""What a producer knows of its messages' topics, to refuse messages that would be undeliverable.

The rules are delivery's own: `resolver/kafka/targets.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ..errors import (
    KeyMissing,
    MessageRefused,
    MessageTooLarge,
    PartitionMissing,
    RealTopicMissing,
    TopicNotPermitted,
)
from ..kafka.targets import (
    Described,
    Misfit,
    Obstacle,
    Target,
    ask,
    batch_bytes,
    find_misfit,
    missing,
    too_large,
)
from ..protocol import Half, Record, StoredHalf, commit_record
from ..protocol.names import MAX_OFFSET
from .half_sender import Prepared
from .topic_limits import admin_of

_log = logging.getLogger(__name__)

_REFUSALS: dict[Obstacle, tuple[type[MessageRefused], str]] = {
    Obstacle.MISSING: (
        RealTopicMissing,
        "make it with `txresolver topics create --topic {topic}`, or correct the name",
    ),
    Obstacle.INTERNAL: (TopicNotPermitted, "choose another"),
    Obstacle.PARTITION: (PartitionMissing, "give a real_qid below that number, or None for any"),
    Obstacle.KEY: (KeyMissing, "give a key, or choose another topic"),
    Obstacle.SIZE: (
        MessageTooLarge,
        "send less (a reference to the content), or raise max.message.bytes of the topic",
    ),
}


#: Most topics that are remembered: their names may be made up without end.
_MOST_TOPICS = 10_000


class _Known(NamedTuple):
    """Facts about a topic, which hold `until` a time; `asked_at` is when the question began.

    `target` is None if the topic does not exist, or if Kafka does not tell (`hidden`).
    """

    asked_at: float
    until: float
    target: Target | None
    hidden: bool = False


class RealTopics:
    """Knows topics for a while; a message that is refused for old facts has them asked again.

    Several threads may use it. Times are in seconds of the monotonic clock.
    """

    def __init__(
        self, options: Mapping[str, Any], group: str, cache_seconds: float, half_max_bytes: int
    ) -> None:
        self._options = options
        self._group = group
        self._cache_seconds = cache_seconds
        self._half_max_bytes = half_max_bytes
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._question: Future[None] | None = None
        self._client: AdminClient | None = None
        self._warned_topics: set[str] = set()

    def questions(
        self, prepared: list[Prepared], deadline: float, check_usable: Callable[[], None]
    ) -> Iterator[tuple[Future[None], float]]:
        """Yield questions until nothing is in doubt, each with the seconds to wait for its answer.

        Raises `MessageRefused` for a message that does not fit its topic, and what `check_usable`
        raises where the connection can't be used.
        """
        since = time.monotonic()
        if not (doubted := self._doubted(prepared, since)):
            return
        # Leave time for the half: where no broker answers, messages are not checked.
        until = (since + deadline) / 2
        while doubted and (seconds := until - time.monotonic()) > 0:
            check_usable()
            asked = self._look_up(doubted, until)
            yield asked, seconds
            if asked.done():
                asked.result()  # raises what stopped the question
            doubted = self._doubted(prepared, since)
        self._check(prepared, since)

    def _doubted(self, prepared: Iterable[Prepared], since: float) -> frozenset[str]:
        """Return the topics to ask about: unknown or old ones, and ones that seem to refuse.

        Facts that were asked `since` then are beyond doubt. Of the callers that meet old facts one
        asks again, and the others use the old facts meanwhile.
        """
        doubted = set()
        for half, record in prepared:
            known = self._known.get(half.topic)
            if known is None:
                doubted.add(half.topic)
            elif known.until < since:
                self._known[half.topic] = known._replace(until=since + self._cache_seconds)
                doubted.add(half.topic)
            elif known.asked_at < since and self._misfit(half, record, known) is not None:
                doubted.add(half.topic)
        return frozenset(doubted)

    def _look_up(self, topics: frozenset[str], give_up_at: float) -> Future[None]:
        """Ask about topics in a thread of its own, unless a question is under way.

        There is one question at a time, whatever its topics: many callers at once would make as
        many threads and clients. So a caller asks again when the future that it got is done.
        """
        with self._lock:
            if self._question is not None and not self._question.done():
                return self._question
            answered: Future[None] = Future()
            answered.set_running_or_notify_cancel()  # rules out a cancellation
            threading.Thread(
                target=self._ask,
                args=(topics, give_up_at, answered),
                name=f"txresolver-topics-{self._group}",
                daemon=True,
            ).start()
            self._question = answered
            return answered

    def _check(self, prepared: Iterable[Prepared], since: float) -> None:
        """Raise `MessageRefused` for the first message that does not fit its topic.

        Facts that were asked before `since` refuse nothing.
        """
        for half, record in prepared:
            known = self._known.get(half.topic)
            if known is None or known.asked_at < since:
                continue
            misfit = self._misfit(half, record, known)
            if misfit is not None:
                refused, remedy = _REFUSALS[misfit.obstacle]
                raise refused(misfit.error, remedy=remedy.format(topic=half.topic))

    def _misfit(self, half: Half, record: Record, known: _Known) -> Misfit | None:
        target = known.target
        if target is None:
            return None if known.hidden else missing(half.topic)
        partition = -1 if half.real_qid is None else half.real_qid
        misfit = find_misfit(half.topic, target, partition, half.key)
        if misfit is None and (target.max_bytes or self._half_max_bytes) < self._half_max_bytes:
            return too_large(half.topic, target, _commit_bytes(half, record.partition))
        return misfit  # a half that fits its own topic fits one that takes as much

    def _ask(self, topics: frozenset[str], give_up_at: float, answered: Future[None]) -> None:
        asked_at = time.monotonic()
        try:
            described = ask(self._clients().__next__, sorted(topics), give_up_at)
        except (KafkaException, FutureTimeout) as error:
            self._go_on_without(topics, error)
        except BaseException as error:  # the caller's thread raises it
            answered.set_exception(error)
            return
        else:
            self._learn(topics, described, asked_at)
        answered.set_result(None)

    def _clients(self) -> Iterator[AdminClient]:
        """Yield the client of the last question, then new ones: a client may be lost."""
        if self._client is not None:
            yield self._client
        while True:
            self._client = admin_of(self._options)
            yield self._client

    def _learn(self, topics: frozenset[str], described: Described, asked_at: float) -> None:
        until = asked_at + self._cache_seconds
        if len(self._known) > _MOST_TOPICS:
            self._known.clear()
        for topic in topics:
            target, hidden = described.targets.get(topic), topic in described.hidden
            self._known[topic] = _Known(asked_at, until, target, hidden)
            if hidden or (target is not None and target.max_bytes is None):
                self._tell(topic, target)

    def _go_on_without(self, topics: frozenset[str], error: Exception) -> None:
        """Let messages for these topics pass until they are asked about again."""
        _log.info("topics can't be described, and are not checked: %s", error or "no answer")
        now = time.monotonic()
        for topic in topics:
            self._known[topic] = _Known(now, now + self._cache_seconds, None, hidden=True)

    def _tell(self, topic: str, target: Target | None) -> None:
        if topic in self._warned_topics:
            return
        self._warned_topics.add(topic)
        unseen = "topic" if target is None else "the settings of topic"
        _log.warning(
            "group %s may not see %s %s: messages that do not fit it are not refused here, and end "
            "as UNDELIVERABLE. Grant the group Describe and DescribeConfigs on it",
            self._group,
            unseen,
            topic,
        )


def _commit_bytes(half: Half, queue: int) -> int:
    """Return the bytes of the commit of a half, with the longest offset that it can get."""
    commit = commit_record(StoredHalf(queue, MAX_OFFSET, 0, half, []))
    return batch_bytes(commit.key, commit.value, commit.headers)
