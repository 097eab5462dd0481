"""First and end offsets of the half and op partitions; planning leaves out silent queues.

Planning asks one client about all queues, and waits a second for the answers. A queue that does not
answer is left out from then on: it keeps its offsets, and the other queues go on. In the
background, new clients ask for this queue until one gets an answer. So no later plan waits for it.

A leader that was cut off from the other brokers still answers, and knows no new records. So a new
client asks every few seconds, and takes over if a later leader answers it. It asks a broker chosen
by chance who leads: `bootstrap_servers` has to name several. After a start such a leader may end
before the plan's start: for two minutes that is not taken for a loss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait as wait_for
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ..errors import ResolverError
from ..protocol import Names
from ..settings import Settings
from .clients import admin_client, client_config

logger = logging.getLogger(__name__)

#: Offsets by topic and partition, as Spark's Kafka source writes them.
Offsets = dict[str, dict[str, int]]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

#: Time in seconds for all partitions to answer, where none may be left out.
_ALL_SECONDS = 10.0
#: Pause in seconds before partitions without an answer are asked for again.
_PAUSE_SECONDS = 0.1
#: Time in seconds for an answer. A plan waits for it, and with it all queues, but only once.
_ANSWER_SECONDS = 1.0
#: Time in seconds that answers may come after their request's time-out. Where one broker is silent,
#: librdkafka hands out the answers of the others only then.
_GRACE_SECONDS = 0.5
#: Options of a background client, also once it has taken over. Its lines would come every few
#: seconds while a broker is away: the warning that names the queue says more. Metrics would cost
#: each new client a request to each broker.
_SILENT = {"log_level": 0, "enable.metrics.push": False}
#: Factor of a background client's time to the time of the last one, and the limit in seconds. A
#: network on which connecting takes long needs more than the first client's time.
_GROWTH, _MOST_SECONDS = 1.5, 10.0
#: Pause in seconds between new clients that look for later leaders, and the time that each has. The
#: client in use won't do, however often it asks who leads: librdkafka asks the broker used last, so
#: mostly the leader cut off.
_LEADERS_SECONDS = 4.0
#: Time in seconds for which a leader is not believed that seems to have been replaced.
_FORMER_SECONDS = 120.0
#: Seconds from leaving out a queue to its first warning, and between warnings.
_WARN_AFTER_SECONDS, _WARN_EVERY_SECONDS = 1.0, 60.0
#: Errors of a broker that is away and comes back.
_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._NOENT,  # "No leaders found"
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)

_Asked = Mapping[TopicPartition, "Future[Any]"]
#: A topic and a queue.
_Place = tuple[str, str]


def all_offsets(settings: Settings, spec: OffsetSpec) -> Offsets:
    """Return an offset of each half and op partition; raises `ResolverError` if one is missing.

    A broker may not know yet who leads a topic that was just made, so partitions without an answer
    are asked for again, for 10 s in all.
    """
    names, admin = Names(settings.topic_prefix), admin_client(settings)
    until = time.monotonic() + _ALL_SECONDS
    return {
        topic: _all_of(admin, topic, settings.queues, spec, until)
        for topic in (names.half, names.op)
    }


def _all_of(
    admin: AdminClient, topic: str, queues: int, spec: OffsetSpec, until: float
) -> dict[str, int]:
    offsets: dict[str, int] = {}
    while len(offsets) < queues:
        missing = [queue for queue in range(queues) if str(queue) not in offsets]
        asked = {TopicPartition(topic, queue): spec for queue in missing}
        seconds = until - time.monotonic()
        if seconds <= 0:
            raise ResolverError(
                f"Kafka does not say where all partitions of {topic} begin or end",
                remedy="start again when each of them has a leader",
            )
        answers = admin.list_offsets(asked, request_timeout=seconds)
        for end in _answers(answers, seconds + _GRACE_SECONDS):
            offsets[end.queue] = end.offset
        if len(offsets) < queues:
            time.sleep(_PAUSE_SECONDS)
    return offsets


class StableEnd(NamedTuple):
    """Where the records of open transactions begin in a partition, and where it ends."""

    stable: int
    end: int


def stable_ends(client: AdminClient, topic: str, queues: int) -> dict[int, StableEnd]:
    """Return the ends of a topic's partitions that answer within a second or two.

    Raises `ResolverError` for an error that another attempt does not mend.
    """
    specs = {TopicPartition(topic, queue): _LATEST for queue in range(queues)}
    ends: list[dict[int, int]] = []
    # Ask for the end last: it is never before the other.
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        asked = client.list_offsets(
            specs, isolation_level=isolation, request_timeout=_ANSWER_SECONDS
        )
        answers = _answers(asked, _ANSWER_SECONDS + _GRACE_SECONDS)
        ends.append({int(one.queue): one.offset for one in answers})
    stable, last = ends
    return {queue: StableEnd(stable[queue], last[queue]) for queue in stable.keys() & last.keys()}


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
        self._trial: _Trial | None = None
        self._seconds = _ANSWER_SECONDS
        self._left_out: dict[str, _LeftOut] = {}
        self._look_at = monotonic() + _LEADERS_SECONDS
        self._start: Offsets = {}  # of the plan
        # The last leader's epoch, and since when a former leader answers, by topic and queue.
        self._epochs: dict[_Place, int] = {}
        self._former_since: dict[_Place, float] = {}
        # Leave out every queue until its first answer.
        self.leave_out(map(str, range(settings.queues)))

    def after(self, start: Offsets) -> Offsets:
        """Return the partitions' end offsets; for a queue that is left out, the offsets of `start`.

        Ops are asked for first: their halves are stored by then, so one plan has both as a rule.
        Raises `ResolverError` for an error that another attempt does not mend.
        """
        self._start = start
        present = self._present(start[self._half])
        ops = self._ends(self._op, present)
        halves = self._ends(self._half, ops)
        self.leave_out(set(present) - halves.keys())
        return {
            topic: {
                queue: found[queue] if queue in halves else before
                for queue, before in start[topic].items()
            }
            for topic, found in ((self._op, ops), (self._half, halves))
        }

    def leave_out(self, queues: Iterable[str], seconds: float = 0.0) -> None:
        """Leave queues out of all plans for `seconds`, and until a new client gets an answer."""
        since = self._monotonic() + seconds
        for queue in queues:
            self._left_out.setdefault(queue, _LeftOut(since, since + _WARN_AFTER_SECONDS))
            # Drop the answers from before: they would bring a queue back that is lost now.
            self._trial = None

    def _present(self, queues: Collection[str]) -> list[str]:
        """Take what new clients have found in the background; return the queues to ask for."""
        self._take_answers()
        self._try()
        # Wait only if all queues are left out: no other queue is held up then.
        if self._trial is not None and len(self._left_out) == len(queues):
            self._trial.wait()
            self._take_answers()
        self._warn()
        return [queue for queue in queues if queue not in self._left_out]

    def _take_answers(self) -> None:
        """Take what a new client has found, unless it has asked a leader that was cut off."""
        if self._trial is None:
            return
        # Take the answers even if the trial is over: plans may be further apart than its time.
        found = self._answers_of(self._trial)
        in_use = {at for at in self._trial.places() if at[1] not in self._left_out}
        if not in_use <= found.keys() and not self._trial.is_done():
            return  # it is not known yet whom it asks about the queues that are in use
        is_later = any(end.epoch > self._epochs.get(at, end.epoch) for at, end in found.items())
        # Look at each of them: a leader of an older epoch is believed after its time.
        former = {at for at, end in found.items() if self._is_of_former_leader(at, end)}
        if not former:
            self._take_back(self._trial, found.keys(), is_later)
        elif self._trial.is_done():
            self._trial.forget()  # only another client may make a former leader believed
        if not self._left_out:
            self._trial, self._seconds = None, _ANSWER_SECONDS

    def _take_back(self, trial: _Trial, found: Set[_Place], is_later: bool) -> None:
        """Take back queues with an answer of both partitions; use a client that knows more."""
        now = self._monotonic()
        back = {
            queue for queue, left_out in self._left_out.items()
            if now >= left_out.since and {(self._half, queue), (self._op, queue)} <= found
        }  # fmt: skip
        if back or is_later:
            # Older clients may know other leaders, or have forgotten all brokers.
            self._client = trial.client
        for queue in sorted(back, key=int):
            self._welcome(queue, self._left_out.pop(queue))

    def _answers_of(self, trial: _Trial) -> dict[_Place, _FoundOffset]:
        """Return a new client's answers; raises `ResolverError` if a queue is left out.

        Otherwise the client in use has answers, and tells of an error that lasts.
        """
        try:
            return trial.answers()
        except ResolverError:
            if self._left_out:
                raise
            return {}

    def _try(self) -> None:
        """Let a new client ask, if it is time to."""
        now = self._monotonic()
        if self._left_out:
            if self._trial is not None and not self._trial.is_over():
                return
            seconds = self._seconds
            self._seconds = min(_MOST_SECONDS, self._seconds * _GROWTH)  # the next one has more
        elif now >= self._look_at:
            seconds = _LEADERS_SECONDS
        else:
            return
        self._look_at = now + _LEADERS_SECONDS
        self._trial = _Trial(self._settings, (self._half, self._op), seconds, self._monotonic)

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
        asked = self._client.list_offsets(
            {TopicPartition(topic, int(queue)): _LATEST for queue in queues},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        return {
            end.queue: end.offset
            for end in _answers(asked, _ANSWER_SECONDS + _GRACE_SECONDS)
            if not self._is_of_former_leader((topic, end.queue), end)
        }

    def _is_of_former_leader(self, place: _Place, end: _FoundOffset) -> bool:
        """Whether a leader answers that has been replaced.

        It may end before what was read of its successor: the partition would seem to have lost
        records. The leader's epoch shows it. After a start no epoch is known. Then an end before
        the plan's start shows it.

        A topic that was made anew begins with a lesser epoch too, and keeps it.
        """
        topic, queue = place
        last = self._epochs.get(place)
        if last is None:
            is_former = end.offset < self._start[topic][queue]
        else:
            is_former = 0 <= end.epoch < last  # some answers have no epoch
        now = self._monotonic()
        if is_former:
            if last is None and place not in self._former_since:
                self._warn_of_early_end(place, end)
            if now - self._former_since.setdefault(place, now) < _FORMER_SECONDS:
                return True
        if self._former_since.pop(place, None) is not None and last is None and not is_former:
            logger.warning("another leader of partition %s of %s was found", queue, topic)
        self._epochs[place] = end.epoch if is_former or last is None else max(end.epoch, last)
        return False

    def _warn_of_early_end(self, place: _Place, end: _FoundOffset) -> None:
        topic, queue = place
        logger.warning(
            "partition %s of %s ends at %d, and was read up to %d: its leader may have been cut "
            "off. New clients look for another leader for %.0f s, then the resolver ends",
            queue, topic, end.offset, self._start[topic][queue], _FORMER_SECONDS,
        )  # fmt: skip

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


class _Trial:
    """A new client's questions, one for each partition, so that a silent one holds up no other.

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
        self._asked = {
            (topic, str(queue)): self.client.list_offsets(
                {TopicPartition(topic, queue): _LATEST},
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
        return self.is_over() or all(answer.done() for answer in self._pending())

    def places(self) -> Set[_Place]:
        """Return the topics and queues that it asks about."""
        return self._asked.keys()

    def forget(self) -> None:
        """Have no answers any more."""
        self._asked = {}

    def wait(self) -> None:
        """Wait until all have answered, or its time is up."""
        wait_for(self._pending(), max(0.0, self._until - self._monotonic()))

    def answers(self) -> dict[_Place, _FoundOffset]:
        """Return the answers so far; raises `ResolverError` as `EndOffsets.after` does."""
        return {place: end for place, asked in self._asked.items() for end in _answers(asked, 0.0)}

    def _pending(self) -> list[Future[Any]]:
        return [answer for asked in self._asked.values() for answer in asked.values()]


class _FoundOffset(NamedTuple):
    """An offset of a queue's partition, and the epoch of the leader that told it."""

    queue: str
    offset: int
    epoch: int


def _answers(asked: _Asked, seconds: float) -> Iterable[_FoundOffset]:
    """Yield the offsets that come within `seconds`."""
    # Limit the wait here: after a restart of the broker a future may stay open, whatever the
    # time-out of its request.
    until = time.monotonic() + seconds
    for place, answer in asked.items():
        end = _end(place, answer, max(0.0, until - time.monotonic()))
        # For a broker that did not answer, librdkafka returns an invalid, negative offset.
        if end is not None and end.offset >= 0:
            yield end


def _end(place: TopicPartition, answer: Future[Any], seconds: float) -> _FoundOffset | None:
    """Return a partition's offset; None if its broker is away."""
    try:
        found = answer.result(seconds)
        epoch = -1 if found.leader_epoch is None else int(found.leader_epoch)
        return _FoundOffset(str(place.partition), int(found.offset), epoch)
    except FutureTimeout:
        return None
    except KafkaException as error:
        if error.args[0].code() in _AWAY:
            return None
        raise ResolverError(
            f"the end of partition {place.partition} of {place.topic}: {error}",
            remedy="see the log of the broker, and start again",
        ) from error
