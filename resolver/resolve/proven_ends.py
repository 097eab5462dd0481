"""End offsets that a rebuild can rely on.

A leader that was cut off from the other brokers reports the end of before, and can't know it. A
rebuild would miss the outcomes behind that end, and deliver their messages once more. So a record
is written to each partition first: only the present leader acknowledges it. Whatever was committed
before has a smaller offset. The transaction is aborted then: no reader sees these records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..errors import ResolverError
from ..kafka.clients import LEADER_OPTIONS, PROMPT_OPTIONS, client_config
from ..protocol import Names
from ..settings import Settings

logger = logging.getLogger(__name__)

#: Offsets by topic and partition.
OffsetsByTopic = dict[str, dict[str, int]]

#: Time in seconds for an attempt. A client stays with a coordinator that was cut off, so each
#: attempt has a new client.
_ATTEMPT_SECONDS = 10.0
#: Pause in seconds between attempts.
_PAUSE_SECONDS = 1.0
#: Time in seconds in which attempts are begun.
_ALL_SECONDS = 60.0


def proven_ends(settings: Settings, partitions: Mapping[str, Iterable[int]]) -> OffsetsByTopic:
    """Return, for each partition, an offset above all that was committed before this call.

    `partitions` has the partition numbers by topic. Raises `ResolverError` if a partition takes no
    record for a minute.
    """
    give_up_at = time.monotonic() + _ALL_SECONDS
    while True:
        try:
            return _written(settings, partitions)
        except KafkaException as error:
            if time.monotonic() > give_up_at:
                raise ResolverError(
                    f"where {', '.join(partitions)} end can't be proved: {error}",
                    remedy="start again when each partition has a leader and replicas in sync",
                ) from error
            logger.warning("where topics end is not proved yet: %s; trying again", error)
        time.sleep(_PAUSE_SECONDS)


def _written(settings: Settings, partitions: Mapping[str, Iterable[int]]) -> OffsetsByTopic:
    """Write a record to each partition, and return the records' offsets."""
    ends: OffsetsByTopic = {topic: {} for topic in partitions}
    errors: list[KafkaError] = []

    def note(error: KafkaError | None, message: Message) -> None:
        if error is None:
            ends[str(message.topic())][str(message.partition())] = int(message.offset() or 0)
        else:
            errors.append(error)

    with closing(_producer(settings)) as producer:
        try:
            producer.init_transactions(_ATTEMPT_SECONDS)
            producer.begin_transaction()
            for topic, numbers in partitions.items():
                for number in numbers:
                    producer.produce(topic, b"", partition=number, on_delivery=note)
            missing = producer.flush(_ATTEMPT_SECONDS)
            if errors:
                raise KafkaException(errors[0])
            if missing:
                reason = f"{missing} partitions acknowledged no record"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            producer.abort_transaction(_ATTEMPT_SECONDS)
        finally:
            producer.purge()  # closing would wait for the records
    return ends


def _producer(settings: Settings) -> Producer:
    ours: dict[str, Any] = {
        **LEADER_OPTIONS,
        **PROMPT_OPTIONS,
        "transactional.id": Names(settings.topic_prefix).ends_id,
        "transaction.timeout.ms": round(2_000 * _ATTEMPT_SECONDS),
        "acks": "all",
        "allow.auto.create.topics": False,
        "linger.ms": 0,
    }
    return Producer(client_config(settings, **ours))
