"""Reading topics from their beginnings, as any consumer that wants committed messages only."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from ..headers import headers_of
from ..kafka import client_config
from ..protocol import Headers
from ..settings import Settings
from .landed import Offsets

_log = logging.getLogger(__name__)
_BATCH = 1_000
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Read:
    """A record as it was read, and when."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    received_ms: int

    def header(self, name: str) -> str | None:
        """Return a header as text, the last where it is repeated; None without it."""
        values = [value for known, value in self.headers if known == name]
        return values[-1].decode("utf-8", "replace") if values and values[-1] else None


class Reader:
    """Reads all partitions of some topics, `read_committed`, in no consumer group's name.

    From their beginning, or from the offsets of another reader of them.
    """

    def __init__(
        self, settings: Settings, topics: Iterable[str], since: Offsets | None = None
    ) -> None:
        ours = {
            "group.id": f"demo-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "logger": _log,
        }
        self._consumer = Consumer(client_config(settings, **ours))
        known = self._consumer.list_topics(timeout=_ANSWER_SECONDS).topics
        self._next = {(topic, number): 0 for topic in topics for number in known[topic].partitions}
        self._next |= since or {}
        self._unfinished = set(self._next)
        self._consumer.assign(
            [TopicPartition(*at, offset or OFFSET_BEGINNING) for at, offset in self._next.items()]
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    @property
    def offsets(self) -> Offsets:
        """The offset behind what was read, by topic and partition."""
        return dict(self._next)

    @property
    def reached_end(self) -> bool:
        """Whether each partition has been read to what was its end at some moment."""
        return not self._unfinished

    def read(self, seconds: float) -> list[Read]:
        """Return what is there, after at most so many seconds."""
        read: list[Read] = []
        messages = self._consumer.consume(_BATCH, seconds)
        received_ms = time.time_ns() // 1_000_000
        for message in messages:
            error = message.error()
            at = (str(message.topic()), int(message.partition() or 0))
            if error is None:
                offset = int(message.offset() or 0)
                headers = headers_of(message) or []
                self._next[at] = offset + 1
                read.append(Read(*at, offset, message.key(), message.value(), headers, received_ms))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.discard(at)
            else:
                _log.warning("reading %s: %s", at, error.str())
        return read

    def has_all_of(self, topic: str) -> bool:
        """Whether all that is stored now was read; for a topic that no transactions write to."""
        return all(
            offset >= self._consumer.get_watermark_offsets(TopicPartition(*at), _ANSWER_SECONDS)[1]
            for at, offset in self._next.items()
            if at[0] == topic
        )
