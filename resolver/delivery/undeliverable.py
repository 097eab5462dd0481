"""What can't be delivered, told apart before it is sent, or learned from what was refused.

One message that can't be delivered must not stop its neighbours: its transaction ends as
UNDELIVERABLE, the message goes to the discarded topic, and the rest is written.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from ..errors import DeliveryError
from ..protocol import Names
from ..settings import Settings
from .packed import Decision, Message
from .targets import Target, Targets, batch_bytes
from .transaction import TOPIC_ERRORS, Narrow, Refused

logger = logging.getLogger(__name__)

#: A topic may be put right at any time: what was learned from refusals holds for so long.
_MAX_AGE_SECONDS = 60.0
#: What librdkafka puts into one batch at most (`batch.size`).
_PRODUCERS_BATCH = 1_000_000
#: Of a topic that refuses one of many messages: how many bytes are sent at a time, to find it.
_FEW_BYTES = 64 * 1024
#: What fits wherever as much as a half may be stored.
_SMALL_BYTES = 256 * 1024


@dataclass
class _Learned:
    """Refusals: of topics, of sizes from so many bytes on, of timestamps from one on, of messages.

    Of the topics in `at_a_time` it is not known yet which message is at fault: so many bytes of
    them are sent at a time, and alone what is in `suspects`, which was refused together. Why checks
    are left out was `warned` of.
    """

    since: float
    topics: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    messages: dict[Message, str] = field(default_factory=dict)
    at_a_time: dict[str, int] = field(default_factory=dict)
    suspects: dict[str, set[Message]] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)


class Undeliverable:
    """Knows what can't be delivered."""

    def __init__(self, settings: Settings, targets: Targets) -> None:
        self._names = Names(settings.topic_prefix)
        self._targets = targets
        self._counts_unanswered = settings.count_unanswered_checks
        compression = {"compression.type", "compression.codec"} & settings.kafka.keys()
        self._compressed = any(settings.kafka[name] != "none" for name in compression)
        self._learned = _Learned(time.monotonic())

    def forget_old(self) -> None:
        """Give what was refused a minute ago another chance."""
        if time.monotonic() - self._learned.since > _MAX_AGE_SECONDS:
            self._learned = _Learned(time.monotonic())

    def learn(self, refused: Refused) -> None:
        """Remember a refusal; raises `DeliveryError` if it is of one of our own topics.

        Not of a group's check topic, though: what is wrong with it is that group's matter.
        """
        learned, topic = self._learned, refused.topic
        is_topic = refused.error.code() in TOPIC_ERRORS
        if self._is_ours(topic) and not (is_topic and self._is_check(topic)):
            raise DeliveryError(
                f"Kafka refuses a record of topic {topic}: {refused.error.str()}; put the topic "
                "right (`txresolver topics create` says how) and start again"
            )
        if is_topic:
            learned.topics[topic] = refused.error.str()
        elif len(refused.messages) == 1:
            self._learn_of(refused.messages[0], refused)
        elif topic not in learned.at_a_time:
            learned.at_a_time[topic] = _FEW_BYTES
        elif refused.is_size:  # of all together, it may be
            learned.at_a_time[topic] //= 8
        else:
            learned.suspects.setdefault(topic, set()).update(refused.messages)

    def _learn_of(self, message: Message, refused: Refused) -> None:
        learned, topic = self._learned, refused.topic
        if refused.is_size and not self._compressed:
            learned.sizes[topic] = min(learned.sizes.get(topic, 2**63), batch_bytes(message))
        elif refused.error.code() == KafkaError.INVALID_TIMESTAMP and self._is_ahead(topic):
            learned.stamps[topic] = min(learned.stamps.get(topic, 2**63), message.timestamp_ms)
        else:
            learned.messages[message] = refused.error.str()
        learned.suspects.pop(topic, None)
        if not refused.is_size:  # a limit holds for many together too
            learned.at_a_time.pop(topic, None)

    def missing(self, topics: set[str]) -> set[str]:
        """Return those of the topics that don't exist."""
        return topics - self._targets.look_up(topics).keys()

    def look_again(self) -> None:
        """Ask the cluster anew: topics were made."""
        self._targets.forget()

    def sort(self, decisions: list[Decision]) -> tuple[list[Decision], Narrow]:
        """Return decisions that can be written, and what is to be sent in small parts.

        A commit that can't be delivered is replaced by its end; a check of a group whose topic is
        not there or takes nothing is left out, as the next one will be sent again; an output that
        is too large is cut.
        """
        writable, narrow = self._sort(decisions)
        if any(now is not before for now, before in zip(writable, decisions, strict=False)):
            # An end is final: not on what was known of a topic some time ago.
            self._targets.forget()
            writable, narrow = self._sort(decisions)
        return writable, narrow

    def _sort(self, decisions: list[Decision]) -> tuple[list[Decision], Narrow]:
        topics = {decision.message.topic for decision in decisions if decision.message}
        ours = {self._names.half, self._names.discarded, self._names.resolution}
        targets = self._targets.look_up(topics | ours)
        if self._names.half not in targets:  # by its limits all others are judged
            raise DeliveryError(f"can't write: {self._output_error(self._names.half, None)}")
        easy = {topic: targets[topic].partitions for topic in topics if self._easy(topic, targets)}
        writable: list[Decision] = []
        for decision in decisions:
            message = decision.message
            if message is None or _is_easy(message, easy):
                writable.append(decision)
            else:
                writable += self._hard(decision, message, targets)
        return writable, self._narrow(targets)

    def _hard(
        self, decision: Decision, message: Message, targets: dict[str, Target]
    ) -> list[Decision]:
        """Return what can be written of a decision that has to be looked at."""
        target = targets.get(message.topic)
        if self._is_ours(message.topic):
            return self._output(decision, message, target)
        error = self._error(message, target)
        if error is None:
            return [decision]
        given_up = decision.undeliverable(error, self._names)
        return self._hard(given_up, given_up.message, targets) if given_up.message else [given_up]

    def _output(
        self, decision: Decision, message: Message, target: Target | None
    ) -> list[Decision]:
        error = self._output_error(message.topic, target)
        if target is None or error is not None:
            self._leave_out(message, str(error))
            return []
        # A half may have been stored compressed: then what says the same can be larger.
        if target.max_bytes is None or batch_bytes(message) <= target.max_bytes:
            return [decision]
        return [decision._replace(message=message.cut(target.max_bytes))]

    def _easy(self, topic: str, targets: dict[str, Target]) -> bool:
        """Whether nothing but the partition of a message, or an uncommon size, can be wrong."""
        learned = self._learned
        if topic not in targets or topic in learned.topics or self._is_ours(topic):
            return False
        of_topic = (learned.sizes, learned.stamps, learned.at_a_time)
        refused_some = any(topic in known for known in of_topic) or learned.messages
        target = targets[topic]
        limited = target.compacted or not target.writable or target.oldest_ms is not None
        return not (refused_some or limited or self._is_narrow(topic, targets))

    def _is_narrow(self, topic: str, targets: dict[str, Target]) -> bool:
        """Whether a topic takes less than the half topic, or than a batch of ours."""
        limit, largest = targets[topic].max_bytes, targets[self._names.half].max_bytes
        return limit is not None and largest is not None and limit < max(largest, _PRODUCERS_BATCH)

    def _narrow(self, targets: dict[str, Target]) -> Narrow:
        """Return how many bytes may be on their way to a topic: its limit holds for a batch."""
        topics = {
            topic: target.max_bytes or 0
            for topic, target in targets.items()
            if self._is_narrow(topic, targets)
        }
        for topic, size in self._learned.at_a_time.items():
            topics[topic] = min(size, topics.get(topic, size))
        return Narrow(topics, frozenset().union(*self._learned.suspects.values()))

    def _error(self, message: Message, target: Target | None) -> str | None:
        """Return why a message can't be delivered."""
        topic, learned = message.topic, self._learned
        if target is None:
            return f"topic {topic} does not exist"
        if not target.writable:
            return f"no permission to write to topic {topic}"
        if message.partition >= target.partitions:
            return f"partition {message.partition} is not there: {topic} has {target.partitions}"
        if target.compacted and message.key is None:
            return f"topic {topic} is compacted and the message has no key"
        if target.oldest_ms is not None and _age_ms(message) > target.oldest_ms:
            limit = f"message.timestamp.before.max.ms={target.oldest_ms}"
            return f"stored longer ago than {limit} of topic {topic} allows"
        if message.timestamp_ms >= learned.stamps.get(topic, 2**63):
            ahead = "message.timestamp.after.max.ms"
            return f"stamped further ahead of the broker's clock than {ahead} of {topic} allows"
        if topic in learned.topics:
            return learned.topics[topic]
        return learned.messages.get(message) or self._size_error(message, target)

    def _size_error(self, message: Message, target: Target) -> str | None:
        size = batch_bytes(message)
        if size >= self._learned.sizes.get(message.topic, size + 1):
            return f"{size} bytes are more than topic {message.topic} takes"
        # A compressed message may be smaller: that is found out by sending it alone.
        if target.max_bytes is not None and size > target.max_bytes and not self._compressed:
            limit = f"max.message.bytes={target.max_bytes}"
            return f"{size} bytes are more than {limit} of topic {message.topic}"
        return None

    def _output_error(self, topic: str, target: Target | None) -> str | None:
        """Return why one of our own topics can't be written to."""
        if target is None:
            make = "txresolver topics create"
            if (group := self._names.checked_group(topic)) is not None:
                make += f" --group {group}"
            return f"topic {topic} does not exist; make it with `{make}`"
        if not target.writable:
            return f"no permission to write to topic {topic}; grant it to the resolver"
        # Where what nobody was asked counts too, halves would be given up: then it is waited for.
        if target.stalled and self._is_check(topic) and not self._counts_unanswered:
            partitions = ", ".join(map(str, target.stalled))
            return f"topic {topic} has no leader, or too few replicas in sync, of {partitions}"
        return self._learned.topics.get(topic)

    def _leave_out(self, message: Message, error: str) -> None:
        if not self._is_check(message.topic):
            raise DeliveryError(f"can't write: {error}")
        if error not in self._learned.warned:
            self._learned.warned.add(error)
            logger.warning("checks are not sent: %s", error)

    def _is_ahead(self, topic: str) -> bool:
        """Whether a timestamp can only be refused for being ahead of the broker's clock.

        So it is with all halves that were stored before that clock stepped back: too many to send
        each alone.
        """
        target = self._targets.look_up({topic}).get(topic)
        if target is None or target.max_bytes is None:
            return False  # its settings are not told
        return target.oldest_ms is None

    def _is_check(self, topic: str) -> bool:
        return self._names.checked_group(topic) is not None

    def _is_ours(self, topic: str) -> bool:
        return topic.startswith(self._names.prefix)


def _age_ms(message: Message) -> int:
    return time.time_ns() // 1_000_000 - message.timestamp_ms


def _is_easy(message: Message, partitions: dict[str, int]) -> bool:
    is_small = message.value is None or len(message.value) <= _SMALL_BYTES
    return is_small and message.partition < partitions.get(message.topic, -1)
