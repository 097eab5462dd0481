"""End offsets that a rebuild can rely on.

A leader that was cut off from the other brokers reports the end of before, and can't know it. A
rebuild would miss the outcomes behind that end, and deliver their messages once more. So a record
is written to each partition first: only the present leader acknowledges it. Whatever was committed
before has a smaller offset. The transaction is aborted then, so no `read_committed` reader sees
these records. Each is a fence, which means nothing to a reader that sees it all the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ..errors import ResolverError
from ..kafka.clients import LEADER_OPTIONS, PROMPT_OPTIONS, client_config, reader_config
from ..kafka.partition_offsets import QueueOffsets
from ..protocol import Names, fence_record
from ..settings import Settings

logger = logging.getLogger(__name__)

#: Time in seconds for each step of an attempt. A client stays with a coordinator that was cut off,
#: so each attempt has a new client.
_STEP_SECONDS = 10.0
_TRANSACTION_MS = 20_000
#: Pause in seconds between attempts, and between looks.
_PAUSE_SECONDS = 1.0
#: Time in seconds in which attempts are begun.
_ALL_SECONDS = 60.0
#: Errors that another attempt does not mend, and their remedies.
_LASTING = dict.fromkeys(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "grant the rights of docs/protocol.md, section 9 (`txresolver topics create --acls`), and "
    "start again",
) | {KafkaError._INVALID_ARG: "mend the options of [kafka], and start again"}


def proven_ends(settings: Settings, partitions: Mapping[str, Collection[int]]) -> QueueOffsets:
    """Return, for each partition, an offset above all that was committed before this call.

    All before it can be read under `read_committed`. `partitions` has the partition numbers by
    topic. Raises `ResolverError` if a partition takes no record for a minute, if no coordinator
    answers, or if an open transaction hides records for `kafka_transaction_timeout_ms`.
    """
    ends = _proven(settings, partitions)
    seconds = settings.kafka_transaction_timeout_ms / 1_000 + _ALL_SECONDS
    give_up_at, is_told = time.monotonic() + seconds, False
    while hidden := ", ".join(_hidden(settings, ends)):
        if time.monotonic() > give_up_at:
            raise ResolverError(
                f"records can't be read yet: {hidden}",
                remedy="start again when these partitions have leaders, and their transactions "
                "have ended",
            )
        if not is_told:
            logger.warning("waiting for the end of open transactions: %s", hidden)
        is_told = True
        time.sleep(_PAUSE_SECONDS)
    return ends


def _proven(settings: Settings, partitions: Mapping[str, Collection[int]]) -> QueueOffsets:
    give_up_at = time.monotonic() + _ALL_SECONDS
    while True:
        try:
            return _written(settings, partitions)
        except KafkaException as error:
            remedy = _LASTING.get(error.args[0].code())
            if remedy is not None or time.monotonic() > give_up_at:
                raise ResolverError(
                    f"where {' and '.join(partitions)} end can't be proved: {error}",
                    remedy=remedy
                    or "start again when each partition has a leader and replicas in sync",
                ) from error
            logger.warning("where topics end is not proved yet: %s; trying again", error)
        time.sleep(_PAUSE_SECONDS)


def _written(settings: Settings, partitions: Mapping[str, Collection[int]]) -> QueueOffsets:
    """Write a record to each partition, and return the records' offsets.

    The producer has one transaction, so a late request reaches no other.
    """
    ends: QueueOffsets = {topic: {} for topic in partitions}
    errors: list[KafkaError] = []

    def note(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None:
            errors.append(error)
        elif offset is not None:  # None: a retry met an earlier success, and proves no offset
            ends[str(message.topic())][str(message.partition())] = offset

    with closing(_producer(settings)) as producer:
        try:
            producer.init_transactions(_STEP_SECONDS)
            producer.begin_transaction()
            for topic, numbers in partitions.items():
                for number in numbers:
                    fence = fence_record(topic, number)
                    producer.produce(
                        topic,
                        fence.value,
                        partition=number,
                        headers=list(fence.headers),
                        on_delivery=note,
                    )
            producer.flush(_STEP_SECONDS)
            if errors:
                raise KafkaException(errors[0])
            if missing := ", ".join(_missing(partitions, ends)):
                reason = f"no leader acknowledges a record: {missing}"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            producer.abort_transaction(_STEP_SECONDS)
        finally:
            producer.purge()  # closing would wait for the records
    return ends


def _missing(partitions: Mapping[str, Collection[int]], ends: QueueOffsets) -> Iterator[str]:
    for topic, numbers in partitions.items():
        for number in numbers:
            if str(number) not in ends[topic]:
                yield f"partition {number} of {topic}"


def _hidden(settings: Settings, ends: QueueOffsets) -> Iterator[str]:
    """Yield partitions whose records before the end can't all be read, by a new client.

    A client in use may stay with a leader that was cut off.
    """
    with closing(Consumer(reader_config(settings))) as consumer:
        for topic, of_topic in ends.items():
            for number, end in of_topic.items():
                if _stable(consumer, TopicPartition(topic, int(number))) < end:
                    yield f"partition {number} of {topic}"


def _stable(consumer: Consumer, partition: TopicPartition) -> int:
    """Return the offset before which no transaction is open; 0 if Kafka does not tell it."""
    try:
        return int(consumer.get_watermark_offsets(partition, _STEP_SECONDS)[1])
    except KafkaException as error:
        logger.debug("%s is not told: %s", partition, error)
        return 0


def _producer(settings: Settings) -> Producer:
    ours: dict[str, Any] = {
        **LEADER_OPTIONS,
        **PROMPT_OPTIONS,
        "transactional.id": Names(settings.topic_prefix).ends_id,
        "transaction.timeout.ms": _TRANSACTION_MS,
        # librdkafka takes neither for longer than the transaction, whatever [kafka] says.
        "socket.timeout.ms": _TRANSACTION_MS,
        "message.timeout.ms": _TRANSACTION_MS,
        "acks": "all",
        "allow.auto.create.topics": False,
        "linger.ms": 0,
    }
    return Producer(client_config(settings, **ours))
