"""Undeliverable messages: told apart before they are sent, or learned from refusals.

One message that can't be delivered must not stop its neighbours: its transaction ends as
UNDELIVERABLE, the message goes to the discarded topic, and the rest is written.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError

from ...errors import DeliveryError
from ...kafka.targets import Target, find_misfit, missing, too_large
from ...protocol import Names
from ...settings import Settings
from .batch_producer import Narrow
from .known_targets import KnownTargets
from .packed import DecisionRecords, Output
from .produce_errors import TOPIC_ERRORS, ProduceRefused

logger = logging.getLogger(__name__)

#: Seconds for which knowledge from refusals holds: a topic may be put right at any time.
_MAX_AGE_SECONDS = 60.0
#: Most bytes that librdkafka puts into one batch (`batch.size`).
_PRODUCERS_BATCH = 1_000_000
#: Bytes that are sent at a time to a topic that refuses one of many messages, to find that message.
_FEW_BYTES = 64 * 1024
#: Bytes that fit into every topic that takes as much as the half topic.
_SMALL_BYTES = 256 * 1024


@dataclass
class _Learned:
    """Refusals that were learned `since` a time.

    - `topics`: the error of a topic that refuses all records.
    - `sizes`: the bytes from which on a topic refuses a message.
    - `stamps`: the timestamp from which on a topic refuses a message.
    - `messages`: the error of a refused message.
    - `at_a_time`: bytes sent at a time to a topic of which the message at fault is not known yet.
    - `suspects`: messages of such a topic that were refused together; each is sent alone.
    - `warned`: reasons for left-out checks that were logged.
    """

    since: float
    topics: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    messages: dict[Output, str] = field(default_factory=dict)
    at_a_time: dict[str, int] = field(default_factory=dict)
    suspects: dict[str, set[Output]] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)


class _Obstacle(NamedTuple):
    """Why one of our own topics can't be written to, and the remedy."""

    cause: str
    remedy: str = ""


def _cannot_write(obstacle: _Obstacle) -> DeliveryError:
    return DeliveryError(f"can't write: {obstacle.cause}", remedy=obstacle.remedy)


class Undeliverable:
    """Replaces commits that can't be delivered; all decisions pass here, most unchanged."""

    def __init__(self, settings: Settings, targets: KnownTargets) -> None:
        self._names = Names(settings.topic_prefix)
        self._targets = targets
        self._counts_unanswered = settings.count_unanswered_checks
        compression = {"compression.type", "compression.codec"} & settings.kafka.keys()
        self._compressed = any(settings.kafka[name] != "none" for name in compression)
        self._learned = _Learned(time.monotonic())

    def forget_old(self) -> None:
        """Give messages refused a minute ago another chance."""
        if time.monotonic() - self._learned.since > _MAX_AGE_SECONDS:
            self._learned = _Learned(time.monotonic())

    def learn(self, refused: ProduceRefused) -> None:
        """Remember a refusal; raises `DeliveryError` if one of our own topics refuses.

        An error of a group's whole check topic raises nothing: it concerns that group alone.
        """
        learned, topic = self._learned, refused.topic
        is_topic = refused.error.code() in TOPIC_ERRORS
        if self._is_ours(topic) and not (is_topic and self._is_check(topic)):
            raise DeliveryError(
                f"Kafka refuses a record of topic {topic}: {refused.error.str()}",
                remedy="put the topic right (`txresolver topics create` says how) and start again",
            )
        if is_topic:
            learned.topics[topic] = refused.error.str()
        elif len(refused.messages) == 1:
            self._learn_of(refused.messages[0], refused)
        elif topic not in learned.at_a_time:
            learned.at_a_time[topic] = _FEW_BYTES
        elif refused.is_size:  # perhaps the size of all messages together
            learned.at_a_time[topic] //= 8
        else:
            learned.suspects.setdefault(topic, set()).update(refused.messages)

    def _learn_of(self, message: Output, refused: ProduceRefused) -> None:
        learned, topic = self._learned, refused.topic
        if refused.is_size and not self._compressed:
            learned.sizes[topic] = min(learned.sizes.get(topic, 2**63), message.batch_bytes)
        elif refused.error.code() == KafkaError.INVALID_TIMESTAMP and self._is_ahead(topic):
            learned.stamps[topic] = min(learned.stamps.get(topic, 2**63), message.timestamp_ms)
        else:
            learned.messages[message] = refused.error.str()
        learned.suspects.pop(topic, None)
        if not refused.is_size:  # a limit holds for many messages together too
            learned.at_a_time.pop(topic, None)

    def writable(self, decisions: list[DecisionRecords]) -> tuple[list[DecisionRecords], Narrow]:
        """Return decisions that can be written, and the limits for sending in small parts.

        - A commit that can't be delivered is replaced by its end.
        - A check of a group whose topic does not exist or takes no records is left out: the next
          check will be sent again.
        - An output that is too large is cut.
        """
        writable, narrow = self._writable(decisions)
        if any(now is not before for now, before in zip(writable, decisions, strict=False)):
            # An end is final: facts about a topic from some time ago are not enough.
            self._targets.forget()
            writable, narrow = self._writable(decisions)
        return writable, narrow

    def _writable(self, decisions: list[DecisionRecords]) -> tuple[list[DecisionRecords], Narrow]:
        topics = {decision.message.topic for decision in decisions if decision.message}
        ours = {self._names.half, self._names.discarded, self._names.resolution}
        targets = self._targets.look_up(topics | ours)
        if self._names.half not in targets:  # its limits judge all other topics
            raise _cannot_write(self._absent(self._names.half))
        easy = {topic: targets[topic].partitions for topic in topics if self._easy(topic, targets)}
        writable: list[DecisionRecords] = []
        for decision in decisions:
            message = decision.message
            if message is None or _is_easy(message, easy):
                writable.append(decision)
            else:
                writable += self._hard(decision, message, targets)
        return writable, self._narrow(targets)

    def _hard(
        self, decision: DecisionRecords, message: Output, targets: dict[str, Target]
    ) -> list[DecisionRecords]:
        """Return the decisions to be written instead of a decision that has to be looked at."""
        target = targets.get(message.topic)
        if self._is_ours(message.topic):
            return self._output(decision, message, target)
        error = self._error(message, target)
        if error is None:
            return [decision]
        given_up = decision.undeliverable(error, self._names)
        return self._hard(given_up, given_up.message, targets) if given_up.message else [given_up]

    def _output(
        self, decision: DecisionRecords, message: Output, target: Target | None
    ) -> list[DecisionRecords]:
        if target is None:
            self._leave_out(message, self._absent(message.topic))
            return []
        if (obstacle := self._output_obstacle(message.topic, target)) is not None:
            self._leave_out(message, obstacle)
            return []
        # A half may have been stored compressed: then an output that says the same can be larger.
        if target.max_bytes is None or message.batch_bytes <= target.max_bytes:
            return [decision]
        return [decision._replace(message=message.cut(target.max_bytes))]

    def _easy(self, topic: str, targets: dict[str, Target]) -> bool:
        """Whether a message to the topic can be wrong only in its partition, or by a rare size."""
        learned = self._learned
        if topic not in targets or topic in learned.topics or self._is_ours(topic):
            return False
        of_topic = (learned.sizes, learned.stamps, learned.at_a_time)
        refused_some = any(topic in known for known in of_topic) or learned.messages
        target = targets[topic]
        limited = target.compacted or target.internal or not target.writable
        limited = limited or target.oldest_ms is not None
        return not (refused_some or limited or self._is_narrow(topic, targets))

    def _is_narrow(self, topic: str, targets: dict[str, Target]) -> bool:
        """Whether a topic takes less than the half topic, or than a batch of ours."""
        limit, largest = targets[topic].max_bytes, targets[self._names.half].max_bytes
        return limit is not None and largest is not None and limit < max(largest, _PRODUCERS_BATCH)

    def _narrow(self, targets: dict[str, Target]) -> Narrow:
        """Return how many bytes may be on their way to each topic: its limit holds for a batch."""
        topics = {
            topic: target.max_bytes or 0
            for topic, target in targets.items()
            if self._is_narrow(topic, targets)
        }
        for topic, size in self._learned.at_a_time.items():
            topics[topic] = min(size, topics.get(topic, size))
        return Narrow(topics, frozenset().union(*self._learned.suspects.values()))

    def _error(self, message: Output, target: Target | None) -> str | None:
        """Return why a message can't be delivered."""
        topic, learned = message.topic, self._learned
        if target is None:
            make = f"txresolver topics create --topic {topic}"
            return f"{missing(topic).error}; make it with `{make}`"
        if (misfit := find_misfit(topic, target, message.partition, message.key)) is not None:
            return misfit.error
        if not target.writable:
            return f"no permission to write to topic {topic}"
        if target.oldest_ms is not None and _age_ms(message) > target.oldest_ms:
            limit = f"message.timestamp.before.max.ms={target.oldest_ms}"
            return f"stored longer ago than {limit} of topic {topic} allows"
        if message.timestamp_ms >= learned.stamps.get(topic, 2**63):
            ahead = "message.timestamp.after.max.ms"
            return f"stamped further ahead of the broker's clock than {ahead} of {topic} allows"
        if topic in learned.topics:
            return learned.topics[topic]
        return learned.messages.get(message) or self._size_error(message, target)

    def _size_error(self, message: Output, target: Target) -> str | None:
        size = message.batch_bytes
        if size >= self._learned.sizes.get(message.topic, size + 1):
            return f"{size} bytes are more than topic {message.topic} takes"
        # A compressed message may be smaller: sending it alone shows that.
        misfit = None if self._compressed else too_large(message.topic, target, size)
        return misfit.error if misfit is not None else None

    def _absent(self, topic: str) -> _Obstacle:
        make = "txresolver topics create"
        if (group := self._names.checked_group(topic)) is not None:
            make += f" --group {group}"
        return _Obstacle(missing(topic).error, f"make it with `{make}`")

    def _output_obstacle(self, topic: str, target: Target) -> _Obstacle | None:
        """Return why one of our own topics can't be written to."""
        if not target.writable:
            return _Obstacle(f"no permission to write to topic {topic}", "grant it to the resolver")
        # If unanswered checks count, halves would be given up without a question: then delivery
        # waits for the topic.
        if target.stalled and self._is_check(topic) and not self._counts_unanswered:
            partitions = ", ".join(map(str, target.stalled))
            return _Obstacle(
                f"topic {topic} has no leader, or too few replicas in sync, of {partitions}"
            )
        refused = self._learned.topics.get(topic)
        return None if refused is None else _Obstacle(refused)

    def _leave_out(self, message: Output, obstacle: _Obstacle) -> None:
        if not self._is_check(message.topic):
            raise _cannot_write(obstacle)
        error = "; ".join(filter(None, obstacle))
        if error not in self._learned.warned:
            self._learned.warned.add(error)
            logger.warning("checks are not sent: %s", error)

    def _is_ahead(self, topic: str) -> bool:
        """Whether a timestamp can only be refused for being ahead of the broker's clock.

        All halves that were stored before that clock stepped back are ahead: too many to send each
        alone.
        """
        target = self._targets.look_up({topic}).get(topic)
        if target is None or target.max_bytes is None:
            return False  # its settings are not told
        return target.oldest_ms is None

    def _is_check(self, topic: str) -> bool:
        return self._names.checked_group(topic) is not None

    def _is_ours(self, topic: str) -> bool:
        return topic.startswith(self._names.prefix)


def _age_ms(message: Output) -> int:
    return time.time_ns() // 1_000_000 - message.timestamp_ms


def _is_easy(message: Output, partitions: dict[str, int]) -> bool:
    is_small = message.value is None or len(message.value) <= _SMALL_BYTES
    return is_small and message.partition < partitions.get(message.topic, -1)
