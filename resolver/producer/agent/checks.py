"""Reads check requests: a consumer whose group is the producer group."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ...errors import ProtocolError
from ...protocol import Check, Names, decode_check
from ...protocol.headers import headers_of
from ...protocol.names import MAX_OFFSET
from ...settings.options import refused_by_librdkafka
from .holding import Held, Holding
from .progress import CheckPosition, Progress

_log = logging.getLogger(__name__)
_silent = logging.Logger("options", logging.CRITICAL + 1)
_FETCH = 500


class CheckReader:
    """Fills the holding up to its limit, and stores the offsets that are done.

    librdkafka commits the stored offsets.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        names: Names,
        group: str,
        queues: int,
        holding: Holding,
        progress: Progress,
        hold_max: int,
    ) -> None:
        self._names = names
        self._group = group
        self._topic = names.check(group)
        self._queues = queues
        self._holding = holding
        self._progress = progress
        self._hold_max = hold_max
        self._paused = False
        self._stopped = False
        self._last_error: Any = None
        self._partitions: set[int] = set()
        self._at_end: set[int] = set()
        self._announced: set[int] = set()
        self.assigned = False
        self._consumer = Consumer(_consumer_options(options, group))
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def read(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for checks and hold them; fetch none beyond the limit."""
        room = 0 if self._stopped else self._hold_max - len(self._holding)
        self._pause(room <= 0)
        first = self._consumer.poll(timeout)
        if first is None:
            return
        self._take(first)
        if room > 1:
            for message in self._consumer.consume(min(room - 1, _FETCH), 0):
                self._take(message)

    def is_new(self) -> bool:
        """Whether this member has a partition since the last announcement, and has read all.

        The partition's former member may have read checks and not answered them.
        """
        return bool(self._partitions - self._announced) and self._partitions <= self._at_end

    def was_announced(self) -> None:
        """Remember the partitions of which the resolver was told."""
        self._announced = set(self._partitions)

    def stop_reading(self) -> None:
        """Fetch no more; further reading only keeps the membership."""
        self._stopped = True

    def store(self) -> None:
        """Store how far all checks are done; librdkafka commits it every second and at the end."""
        for partition, offset in self._progress.advanced().items():
            done = TopicPartition(self._topic, partition, offset)
            try:
                self._consumer.store_offsets(offsets=[done])
            except KafkaException as error:  # another member has the partition by now
                _log.debug("offset %d of partition %d: %s", offset, partition, error)

    def close(self) -> None:
        """Commit the offsets that are done, and leave the group."""
        self.store()
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(message.partition() or 0)
            return
        if error is not None:
            self._tell(error)
            return
        self._last_error = None
        position = CheckPosition(message.partition() or 0, message.offset() or 0)
        self._progress.read(position)
        try:
            check = self._decode(message)
        except ProtocolError as error:
            _log.warning("a check at %s:%d:%d is passed over: %s", self._topic, *position, error)
            self._progress.done(position)
            return
        needless = self._holding.put(Held(check, position))
        if needless is not None:
            self._progress.done(needless.position)

    def _decode(self, message: Message) -> Check:
        headers = headers_of(message)
        if headers is None:
            raise ProtocolError("a header's name is no UTF-8")
        value: Any = message.value()
        check = decode_check(value, headers, self._names.prefix)
        if check.half.group != self._group:
            raise ProtocolError(f"it is for group {check.half.group!r}, not {self._group!r}")
        queue, offset = check.half_id
        if not 0 <= queue < self._queues or not 0 <= offset <= MAX_OFFSET:
            raise ProtocolError(f"HALF_OFFSET is {check.half_id}; there are {self._queues} queues")
        return check

    def _pause(self, full: bool) -> None:
        if full != self._paused:
            partitions = self._consumer.assignment()
            (self._consumer.pause if full else self._consumer.resume)(partitions)
            self._paused = full

    def _tell(self, error: KafkaError) -> None:
        if error.code() == self._last_error:
            return  # logged before; librdkafka repeats it for as long as it lasts
        self._last_error = error.code()
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            _log.warning(
                "topic %s is not there yet; the agent waits for it. The resolver makes it with "
                "the group's first check, `txresolver topics create --group %s` at once",
                self._topic,
                self._group,
            )
        else:
            _log.warning("checks of group %s: %s", self._group, error.str())

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("group %s: %d more partitions of checks", self._group, len(partitions))
        if self._paused:
            self._consumer.resume(self._consumer.assignment())  # partitions that stay
        self._paused = False  # new partitions are not paused; the next read decides
        self._partitions |= {assigned.partition for assigned in partitions}
        self._announced &= self._partitions
        self.assigned = True

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.store()
        self._forget(partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Another member may have used up their checks meanwhile.
        self._announced -= {lost.partition for lost in partitions}
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        # Resume first: librdkafka would remember the pause, and fetch nothing if the partition came
        # back.
        self._consumer.resume(partitions)
        numbers = {forgotten.partition for forgotten in partitions}
        self._partitions -= numbers
        self._at_end -= numbers
        self._holding.drop(numbers)
        self._progress.forget(numbers)


def check_consumer_options(options: Mapping[str, Any], group: str) -> None:
    """Make a consumer without brokers; raises `SettingsError` if librdkafka refuses an option."""
    trial = _consumer_options(options, group)
    for name in ("bootstrap.servers", "oauth_cb"):  # a consumer with the latter asks for a token
        trial.pop(name, None)
    try:
        Consumer({**trial, "logger": _silent}).close()
    except KafkaException as error:
        reason = error.args[0].str()
        raise refused_by_librdkafka("librdkafka refused an option", reason) from error


def _consumer_options(options: Mapping[str, Any], group: str) -> dict[str, Any]:
    # Time in ms after which a dead member's checks go to another member. With the new group
    # protocol the broker has this setting.
    session = {} if options.get("group.protocol") == "consumer" else {"session.timeout.ms": 10_000}
    return {
        **session,
        "auto.commit.interval.ms": 1000,
        "topic.metadata.refresh.interval.ms": 2000,  # its topic may be made at any time
        **options,
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": True,
        "enable.partition.eof": True,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,
    }
