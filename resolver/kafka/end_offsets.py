"""End offsets of the half and op partitions; planning leaves out silent queues.

Planning asks one client about all queues, and waits a second for the answers. A queue that does not
answer is left out from then on: it keeps its offsets, and the other queues go on. In the
background, new clients ask for this queue until one gets an answer. So no later plan waits for it.

A leader that was cut off from the other brokers still answers, and knows no new records. So a new
client asks every few seconds, and takes over if a later leader answers it. It asks a broker chosen
by chance who leads: `bootstrap_servers` has to name several. If the last plan was more than eight
seconds ago, the batch may have waited for a leader that moved. Then planning waits for the new
client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Set
from typing import NamedTuple

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

from ..errors import ResolverError
from ..protocol import Names
from ..settings import Settings
from .background_client import BackgroundClient, QueuePartition
from .leaders import Leaders
from .offset_answers import GRACE_SECONDS, LATEST, OffsetAnswer, offset_answers
from .partition_offsets import QueueOffsets

logger = logging.getLogger(__name__)

#: Time in seconds for an answer. A plan waits for it, and with it all queues, but only once. It may
#: also wait as long for a new client.
_ANSWER_SECONDS = 1.0
#: Factor of a background client's time to the time of the last one, and the limit in seconds. A
#: network on which connecting takes long needs more than the first client's time.
_GROWTH, _MOST_SECONDS = 1.25, 10.0
#: Pause in seconds between new clients that look for later leaders, and the time that each has. The
#: client in use won't do, however often it asks who leads: librdkafka asks the broker used last, so
#: mostly the leader cut off.
_LEADERS_SECONDS = 4.0
#: Seconds since the last plan after which planning waits for a new client. Large batches take about
#: 5 s: a wait in each plan would cost a backlog 1 to 2 % of its rate. By default Kafka replaces a
#: dead leader after 9 s, and the batch that reads from it waits as long. After a shorter batch, a
#: later leader is found one batch later.
_LONG_BATCH_SECONDS = 8.0
#: Seconds from leaving out a queue to its first warning, and between warnings.
_WARN_AFTER_SECONDS, _WARN_EVERY_SECONDS = 1.0, 60.0


class _LeftOut(NamedTuple):
    """From when a queue's answers count, and when to warn next; seconds of the monotonic clock."""

    since: float
    warn_at: float
    is_told: bool = False


class EndOffsets:
    """Asks for the end offsets of queues that answer, and knows the queues that do not."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> None:
        names = Names(settings.topic_prefix)
        self._half, self._op = names.half, names.op
        self._settings = settings
        self._monotonic = monotonic
        self._client: AdminClient | None = None
        self._new_client: BackgroundClient | None = None
        self._seconds = _ANSWER_SECONDS
        self._left_out: dict[str, _LeftOut] = {}
        self._look_at = monotonic() + _LEADERS_SECONDS
        self._planned_at = monotonic()
        self._wait_seconds = _ANSWER_SECONDS  # for a new client, after a long pause
        self._start: QueueOffsets = {}  # of the plan
        self._leaders = Leaders(monotonic)
        # Leave out every queue until its first answer.
        self.leave_out(map(str, range(settings.queues)))

    def after(self, start: QueueOffsets) -> QueueOffsets:
        """Return the partitions' end offsets; for a queue that is left out, the offsets of `start`.

        Ops are asked for first: their halves are stored by then, so one plan has both as a rule.
        Raises `ResolverError` for an error that another attempt does not mend.
        """
        self._start = start
        present = self._present(start[self._half])
        ops = self._ends(self._op, present)
        halves = self._ends(self._half, ops)
        self.leave_out(set(present) - halves.keys())
        self._planned_at = self._monotonic()
        return {
            topic: {
                queue: ends[queue] if queue in halves else before
                for queue, before in start[topic].items()
            }
            for topic, ends in ((self._op, ops), (self._half, halves))
        }

    def leave_out(self, queues: Iterable[str], seconds: float = 0.0) -> None:
        """Leave queues out of all plans for `seconds`, and until a new client gets an answer."""
        since = self._monotonic() + seconds
        for queue in queues:
            self._left_out.setdefault(queue, _LeftOut(since, since + _WARN_AFTER_SECONDS))
            self._wait_seconds = _ANSWER_SECONDS
            # Drop the answers from before: they would bring a queue back that is lost now.
            self._new_client = None

    def _present(self, queues: Collection[str]) -> list[str]:
        """Take what new clients have found in the background; return the queues to ask for."""
        self._take_answers()
        self._try()
        if self._new_client is not None:
            # Wait for all of its time only if all queues are left out: no other is held up then.
            if len(self._left_out) == len(queues):
                self._new_client.wait()
                self._take_answers()
            elif self._is_long_ago():
                self._new_client.wait(self._wait_seconds, besides=self._left_out)
                if not self._take_answers():
                    # Kafka may be slow: then waiting for each new client would hold up all plans.
                    self._wait_seconds /= 2
        self._warn()
        return [queue for queue in queues if queue not in self._left_out]

    def _is_long_ago(self) -> bool:
        """Whether the last plan is so old that its batch may have waited for a dead leader."""
        return self._monotonic() > self._planned_at + _LONG_BATCH_SECONDS

    def _take_answers(self) -> bool:
        """Take what a new client has found, unless it has asked a leader that was cut off.

        Return whether it is known by now whom the client asks.
        """
        if self._new_client is None:
            return True
        # Take the answers even if the client's time is up: plans may be further apart than that.
        answers = self._answers_of(self._new_client)
        in_use = {
            (topic, queue)
            for topic, queue in self._new_client.partitions()
            if queue not in self._left_out
        }
        if not in_use <= answers.keys() and not self._new_client.is_done():
            return False  # it is not known yet whom it asks about the queues that are in use
        is_later = self._leaders.has_later(answers)
        # Look at each of them: a leader of an older epoch is believed after its time.
        former = {
            partition
            for partition, answer in answers.items()
            if self._is_of_former_leader(partition, answer)
        }
        if not former:
            self._take_back(self._new_client, answers.keys(), is_later)
        elif self._new_client.is_done():
            self._new_client.forget()  # only another client may make a former leader believed
        if not self._left_out:
            self._new_client, self._seconds = None, _ANSWER_SECONDS
        return True

    def _take_back(
        self, new_client: BackgroundClient, answered: Set[QueuePartition], is_later: bool
    ) -> None:
        """Take back queues with an answer of both partitions; use a client that knows more."""
        now = self._monotonic()
        back = {
            queue for queue, left_out in self._left_out.items()
            if now >= left_out.since and {(self._half, queue), (self._op, queue)} <= answered
        }  # fmt: skip
        if back or is_later:
            # Older clients may know other leaders, or have forgotten all brokers.
            self._client = new_client.client
        for queue in sorted(back, key=int):
            self._welcome(queue, self._left_out.pop(queue))

    def _answers_of(self, new_client: BackgroundClient) -> dict[QueuePartition, OffsetAnswer]:
        """Return a new client's answers; raises `ResolverError` if a queue is left out.

        Otherwise the client in use has answers, and tells of an error that lasts.
        """
        try:
            return new_client.answers()
        except ResolverError:
            if self._left_out:
                raise
            return {}

    def _try(self) -> None:
        """Let a new client ask, if it is time to."""
        now = self._monotonic()
        if self._left_out:
            if self._new_client is not None and not self._new_client.is_over():
                return
            seconds = self._seconds
            self._seconds = min(_MOST_SECONDS, self._seconds * _GROWTH)  # the next one has more
        elif now >= self._look_at:
            seconds = _LEADERS_SECONDS
        else:
            return
        self._look_at = now + _LEADERS_SECONDS
        self._new_client = BackgroundClient(
            self._settings, (self._half, self._op), seconds, self._monotonic
        )

    def _ends(
        self,
        topic: str,
        queues: Collection[str],
    ) -> dict[str, int]:
        """Return the ends of the partitions that answer, by queue.

        Below a committed end, no transaction is open.
        """
        if self._client is None or not queues:
            return {}
        futures = self._client.list_offsets(
            {TopicPartition(topic, int(queue)): LATEST for queue in queues},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        return {
            answer.queue: answer.offset
            for answer in offset_answers(futures, _ANSWER_SECONDS + GRACE_SECONDS)
            if not self._is_of_former_leader((topic, answer.queue), answer)
        }

    def _is_of_former_leader(self, partition: QueuePartition, answer: OffsetAnswer) -> bool:
        topic, queue = partition
        return self._leaders.is_former(partition, answer, self._start[topic][queue])

    def _warn(self) -> None:
        now = self._monotonic()
        for queue, left_out in self._left_out.items():
            if now >= left_out.warn_at:
                logger.warning(
                    "queue %s is left out: for %.0f s Kafka has not said, or not been believed, "
                    "where partition %s of %s and of %s ends; the other queues go on. Is a broker "
                    "down?",
                    queue, now - left_out.since, queue, self._half, self._op,
                )  # fmt: skip
                warn_at = now + _WARN_EVERY_SECONDS
                self._left_out[queue] = left_out._replace(warn_at=warn_at, is_told=True)

    def _welcome(self, queue: str, left_out: _LeftOut) -> None:
        if left_out.is_told:
            seconds = self._monotonic() - left_out.since
            logger.warning("queue %s is back after %.1f s", queue, seconds)
