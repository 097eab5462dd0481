"""Follows the resolver's policy, so that a producer refuses what the resolver would not deliver.

Without a policy the producer goes on: the resolver decides, and a commit that it refuses ends as
UNDELIVERABLE.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ..errors import MessageRefused, ProtocolError, TopicNotPermitted, TransactionsRejected
from ..protocol import Half
from ..protocol.policy import Policy, Refusals, decode_policy

_log = logging.getLogger(__name__)
#: Errors that a topic's absence or a missing right causes; others are of connections, and pass.
_UNREADABLE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}
#: Longest wait in ms of a fetch for a new policy; a policy that comes ends it at once.
_FETCH_WAIT_MS = 5_000
#: Pause in s before Kafka is asked again.
_PAUSE_SECONDS = 0.1
#: Time in ms after which a topic that was not there is looked for again.
_REFRESH_MS = 5_000


class PolicyFollower:
    """Reads `tx.policy` from its beginning, then whatever comes.

    It has no thread of its own: `look` is called by a thread of the producer.
    """

    def __init__(self, options: Mapping[str, Any], group: str, policy_topic: str) -> None:
        self._topic = policy_topic
        self._partition = TopicPartition(policy_topic, 0, OFFSET_BEGINNING)
        self._group = group
        self._refusals: Refusals | None = None
        self._last_warning = ""
        self._lock = threading.Lock()
        self._consumer = self._open(options)

    @property
    def policy(self) -> Policy | None:
        """The resolver's policy; None if it is not known."""
        return self._refusals.policy if self._refusals is not None else None

    def check(self, half: Half) -> None:
        """Raise `MessageRefused` if the policy refuses the half's message."""
        refusals = self._refusals  # once: another thread may replace it
        refusal = refusals[half.group, half.topic] if refusals is not None else ""
        if refusals is not None and refusal:
            raise _refused(refusals.policy, refusal)

    def read(self, timeout: float) -> None:
        """Read the policy that is there; returns after `timeout` seconds at the latest.

        The end of the topic is asked for: a fetch there is not answered for `_FETCH_WAIT_MS`.
        """
        if self._consumer is None:
            return
        deadline = time.monotonic() + timeout
        has_records = self._has_records(self._consumer, deadline)
        # Now the leader is known: assigned before, the first fetch waits half a second for it.
        self._consumer.assign([self._partition])
        while has_records and time.monotonic() < deadline:
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is not None and (self._take(message) or message.error() is None):
                self.look()  # the rest came with the first record: the topic is compacted
                return
        if has_records:
            self._tell(f"no answer within {timeout:g} s")

    def look(self) -> None:
        """Take a new policy if one has come; never waits."""
        with self._lock:
            while self._consumer is not None and (message := self._consumer.poll(0)) is not None:
                self._take(message)

    def close(self) -> None:
        """End the client."""
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _has_records(self, consumer: Consumer, deadline: float) -> bool:
        """Whether the topic has records; without an answer until the deadline it has none.

        A leader that is not there yet is waited for, a topic that is not there is not.
        """
        while True:
            remaining = max(_PAUSE_SECONDS, deadline - time.monotonic())
            try:
                first, end = consumer.get_watermark_offsets(self._partition, remaining)
            except KafkaException as error:
                if error.args[0].code() in _UNREADABLE or time.monotonic() > deadline:
                    self._tell(error.args[0].str())
                    return False
                time.sleep(_PAUSE_SECONDS)
            else:
                return bool(first < end)

    def _open(self, options: Mapping[str, Any]) -> Consumer | None:
        silent_ms = int(options["socket.timeout.ms"])
        try:
            consumer = Consumer(
                {
                    **options,
                    # Use the group's own name, which needs no further right. Nothing is committed,
                    # and the group has no more members than before.
                    "group.id": self._group,
                    # Options of a consumer in a group may not go together with each other here.
                    "group.protocol": "classic",
                    "session.timeout.ms": 10_000,
                    "max.poll.interval.ms": 300_000,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "allow.auto.create.topics": False,
                    "enable.partition.eof": True,
                    "topic.metadata.refresh.interval.ms": _REFRESH_MS,
                    # Say at once that a topic is not there; the default says it after 30 s.
                    "topic.metadata.propagation.max.ms": 0,
                    "fetch.wait.max.ms": min(_FETCH_WAIT_MS, silent_ms // 2),
                    "error_cb": lambda error: _log.debug("Kafka, policy: %s", error.str()),
                }
            )
        except KafkaException as error:  # such as an option that only producers can have
            self._tell(error.args[0].str())
            return None
        return consumer

    def _take(self, message: Message) -> bool:
        """Take a record or an error; return whether no more is to be read now."""
        error = message.error()
        if error is None:
            self._learn(message.value())
        elif error.code() in _UNREADABLE:
            self._refusals = None
            self._tell(error.str())
        return error is not None and error.code() in {*_UNREADABLE, KafkaError._PARTITION_EOF}

    def _learn(self, value: Any) -> None:
        try:
            policy = decode_policy(value)
        except ProtocolError as error:
            self._refusals = None
            self._tell(str(error))
            return
        if policy != self.policy:
            _log.info("group %s follows a new policy of the resolver", self._group)
            self._refusals = Refusals(policy)
        self._last_warning = ""

    def _tell(self, why: str) -> None:
        if why != self._last_warning:  # librdkafka repeats an error for as long as it lasts
            self._last_warning = why
            _log.warning(
                "the resolver's policy can't be read from topic %s (%s): messages that it refuses "
                "end as UNDELIVERABLE. `txresolver topics create` makes the topic, with --acls it "
                "grants group %s to read it",
                self._topic,
                why,
                self._group,
            )


def _refused(policy: Policy, refusal: str) -> MessageRefused:
    if policy.rejects:
        return TransactionsRejected(f"{refusal} in the resolver's settings", remedy="send it later")
    return TopicNotPermitted(
        refusal,
        remedy="send to one of these, or have the topic added to `topics` of the group's section "
        "in the resolver's settings",
    )
