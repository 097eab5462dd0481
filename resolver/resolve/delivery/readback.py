"""Reads topics back: from a point in time to their present ends, as a consumer would see them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from ...kafka.clients import WHOLE_BYTES, admin_client, reader_config
from ...kafka.offset_answers import LATEST, ask_offsets
from ...settings import Settings

logger = logging.getLogger(__name__)

#: Most records of a partition that are read, counted back from its end. A half may have pended for
#: days: without this limit all records of its topic since then would be read.
_MOST_RECORDS = 1_000_000
#: Longest wait for a further record in seconds; then reading back fails. Another application's open
#: transaction may hide the end of a topic.
_PATIENCE_SECONDS = 15.0
#: Seconds without progress after which a new client reads on. They count once each unread
#: partition has ended too early. A client stays with a leader that was cut off: there no
#: transaction ends. A client that begins behind an open transaction is shown no end: the longest
#: wait counts.
_NEW_CLIENT_SECONDS = 2.0
#: Shares of the time that clients have to ask for offsets, one after the other. A client that asked
#: a moment too soon stays with leaders that have died. So the first client has the least time.
_SHARES = (1 / 6, 1 / 3, 1 / 2)
#: The least time in seconds that a client has, and the pause before the next one asks.
_LEAST_SECONDS, _PAUSE_SECONDS = 1.0, 0.1
_CHUNK_RECORDS = 10_000
_CHUNK_SECONDS = 0.5

#: The leader asked shows no record at an offset: all are read, or it lacks this record.
_NO_MORE = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})
#: Kafka's offset for "no record is as new".
_NO_RECORD = -1

_OffsetsByPartition = dict[TopicPartition, int]


class Since(NamedTuple):
    """Partitions of a topic, and the least timestamp (ms) that counts; None if none is known."""

    partitions: list[int]
    timestamp_ms: int | None


class EndHidden(KafkaException):
    """The end of topics can't be read: another application's open transaction may hide it.

    Never leaves delivery.
    """

    def __init__(self, topics: Set[str]) -> None:
        reason = (
            f"the end of {', '.join(sorted(topics))} can't be read: has each partition a leader, "
            "and does no other application keep a transaction open there?"
        )
        super().__init__(KafkaError(KafkaError._TIMED_OUT, reason))
        self.topics = topics


def read_back(
    settings: Settings, topics: Mapping[str, Since], seconds: float, hidden: Set[str]
) -> Iterator[Message]:
    """Return the records of topics under `read_committed`; none of a topic that may not be read.

    Of the topics `hidden`, records are returned as far as they can be read.

    Raises `KafkaException` if Kafka does not tell offsets in `seconds`, and `EndHidden` if the end
    of another topic can't be reached.
    """
    begins, ends = _bounds(settings, topics, seconds)
    for partition, end in ends.items():
        if begins[partition] < end - _MOST_RECORDS:
            begins[partition] = end - _MOST_RECORDS
            logger.warning(
                "of partition %d of %s only the last %d records are looked at",
                partition.partition,
                partition.topic,
                _MOST_RECORDS,
            )
    yield from _until(settings, begins, ends, hidden)


def _bounds(
    settings: Settings, topics: Mapping[str, Since], seconds: float
) -> tuple[_OffsetsByPartition, _OffsetsByPartition]:
    """Return where to begin in each partition, and its end; raises as `read_back` does.

    A client that fails is followed by a new one. A client that asked a broker that was cut off,
    and then another one, finds no leader of some partitions.
    """
    *first, last = (max(_LEAST_SECONDS, share * seconds) for share in _SHARES)
    for of_client in first:
        try:
            return _told_bounds(settings, topics, of_client)
        except (KafkaException, FutureTimeout) as error:
            logger.info("a new client asks where records begin and end: %s", repr(error))
            time.sleep(_PAUSE_SECONDS)
    return _told_bounds(settings, topics, last)


def _told_bounds(
    settings: Settings, topics: Mapping[str, Since], seconds: float
) -> tuple[_OffsetsByPartition, _OffsetsByPartition]:
    """Return what a new client is told of the bounds; behind all records if none is as new."""
    begin_specs = {
        # A record's timestamp is 0 at least.
        TopicPartition(topic, number): OffsetSpec.for_timestamp(max(0, since.timestamp_ms or 0))
        for topic, since in topics.items()
        for number in since.partitions
    }
    admin = admin_client(settings)
    begins = _offsets(admin, begin_specs, seconds, least=_NO_RECORD)
    ends = _offsets(admin, dict.fromkeys(begin_specs, LATEST), seconds, least=0)
    behind_all = 2**63 - 1
    return {
        partition: behind_all if begin == _NO_RECORD else begin
        for partition, begin in begins.items()
    }, ends


def _offsets(
    admin: AdminClient, specs: dict[TopicPartition, OffsetSpec], seconds: float, least: int
) -> _OffsetsByPartition:
    """Return the offsets; raises `KafkaException` if a broker does not tell one of `least` or more.

    librdkafka returns -1001, and no error, for a broker that did not answer.
    """
    if not specs:
        return {}
    # Open transactions count too: our own records may stand behind them.
    answers = ask_offsets(admin, specs, seconds)
    offsets = {partition: _offset(answer, seconds + 1) for partition, answer in answers.items()}
    if len(offsets) < len(specs) or min(offsets.values()) < least:
        reason = "not every partition has a leader that answers"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
    return offsets


def _offset(answer: Future[ListOffsetsResultInfo], seconds: float) -> int:
    error = answer.exception(seconds)
    if error is not None:
        # Not the future's own exception: its traceback would keep the future, and with it the
        # client, until the next collection of garbage. A batch puts that off.
        raise KafkaException(*error.args)
    return int(answer.result().offset)


def _until(
    settings: Settings, begins: _OffsetsByPartition, ends: _OffsetsByPartition, hidden: Set[str]
) -> Iterator[Message]:
    """Return records until each partition's end has been read, as far as that can be."""
    unread = {partition: begin for partition, begin in begins.items() if begin < ends[partition]}
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while unread:
        for message in _from_new_client(settings, unread, ends):
            give_up_at = time.monotonic() + _PATIENCE_SECONDS
            yield message
        if unread and time.monotonic() > give_up_at:
            topics = {partition.topic for partition in unread}
            if topics - hidden:
                raise EndHidden(topics)
            logger.warning(
                "topic %s is looked at up to an open transaction only: whether any of the batch is "
                "behind it is not known. End that transaction with `kafka-transactions.sh abort`",
                ", ".join(sorted(topics)),
            )
            return


def _from_new_client(
    settings: Settings, unread: _OffsetsByPartition, ends: _OffsetsByPartition
) -> Iterator[Message]:
    """Let a new client read as long as it shows more; `unread` has where the next one goes on."""
    with closing(_consumer(settings)) as consumer:
        consumer.assign(
            [TopicPartition(each.topic, each.partition, begin) for each, begin in unread.items()]
        )
        too_early: set[TopicPartition] = set()  # where the leader asked shows no more
        moved_at = time.monotonic()
        while unread:
            # `consume` waits for the full number: wait for one record, then take those fetched.
            messages = consumer.consume(1, _CHUNK_SECONDS)
            messages += consumer.consume(_CHUNK_RECORDS, 0)
            for message in messages:
                partition = TopicPartition(message.topic() or "", message.partition() or 0)
                error = message.error()
                if error is None:
                    yield message
                elif error.code() in _NO_MORE:
                    too_early.add(partition)
                if partition in unread and (read_to := _read_to(message)) > unread[partition]:
                    unread[partition], moved_at = read_to, time.monotonic()
                    if read_to >= ends[partition]:
                        del unread[partition]
                        consumer.pause([partition])
            too_early |= {each for each in unread if _lacks(consumer, each, ends[each])}
            seconds = _NEW_CLIENT_SECONDS if too_early >= unread.keys() else _PATIENCE_SECONDS
            if time.monotonic() > moved_at + seconds:
                return


def _lacks(consumer: Consumer, partition: TopicPartition, end: int) -> bool:
    """Whether the leader that is asked has fewer records than the one that told the end."""
    _, high = consumer.get_watermark_offsets(partition, cached=True)
    return 0 <= high < end  # negative before the leader's first answer


def _read_to(message: Message) -> int:
    """Return the offset up to which a partition was read; -1 if the message says nothing of it."""
    error = message.error()
    if error is None:
        return int(message.offset() or 0) + 1
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset() or 0)
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        logger.warning(
            "topic %s may not be read: whether any of the batch is there is not known. Grant the "
            "resolver Read, docs/protocol.md, section 9",
            message.topic(),
        )
        return 2**63 - 1
    return -1  # librdkafka tries again; without success the wait times out


def _consumer(settings: Settings) -> Consumer:
    ours = {
        "enable.partition.eof": True,
        # A leader that was cut off may end before a new client's first offset. The client would go
        # on at the end, and records would be passed over.
        "auto.offset.reset": "error",
        # ms that an answer waits for records: a partition's end comes with the next answer.
        "fetch.wait.max.ms": 10,
        "fetch.message.max.bytes": WHOLE_BYTES,
    }
    return Consumer(reader_config(settings, **ours))
