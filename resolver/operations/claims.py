"""Reads the claims in `tx.operation`, up to an offset that is known to be there."""

from __future__ import annotations

import time
from collections.abc import Set

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ..errors import OperationError, ProtocolError
from ..kafka.clients import WHOLE_BYTES, reader_config
from ..protocol import Act, Names, decode_claim
from ..settings import Settings

#: Time in seconds for one answer of Kafka.
_ANSWER_SECONDS = 10.0
#: Time in seconds for open transactions of others before an offset: Kafka ends them after 10 s, and
#: looks for them every 10 s.
_PATIENCE_SECONDS = 40.0
#: Time in seconds until Kafka is asked again who leads a new topic.
_PAUSE_SECONDS = 0.1
_NO_LEADER_YET = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class ClaimReader:
    """The claims so far. Each is read once: the reader goes on where it was.

    Only claims of Kafka transactions that were committed are read.
    """

    def __init__(self, settings: Settings) -> None:
        names = Names(settings.topic_prefix)
        self._partition = TopicPartition(names.operation, 0, 0)
        self._read_to = 0
        #: Halves that were resumed, and the operation that did it.
        self.resumed: dict[str, str] = {}
        self._of_operation: dict[str, set[str]] = {}
        ours = {
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "fetch.message.max.bytes": WHOLE_BYTES,
        }
        self._consumer = Consumer(reader_config(settings, **ours))
        self._consumer.assign([self._partition])

    def read(self) -> None:
        """Read the claims that are there now."""
        self.read_to(self._end())

    def read_to(self, offset: int) -> None:
        """Read all claims before an offset, once the transactions before it have ended.

        A leader that was cut off does not have the offset: the reader waits for the one that has.
        """
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while self._read_to < offset:
            message = self._consumer.poll(0.5)
            if message is None:
                if time.monotonic() > give_up_at:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "reading claims"))
                continue
            error = message.error()
            if error is None:
                self._take(message.value(), message.offset() or 0)
                self._read_to = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read_to = max(self._read_to, message.offset() or 0)
            elif not error.retriable():
                raise KafkaException(error)

    def acted_on(self, operation: str) -> Set[str]:
        """Return the halves on which an operation has acted already."""
        return self._of_operation.get(operation, set())

    def close(self) -> None:
        self._consumer.close()

    def _end(self) -> int:
        """Return the end of the topic; one that was just made may not have its leader yet."""
        give_up_at = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                return int(
                    self._consumer.get_watermark_offsets(self._partition, _ANSWER_SECONDS)[1]
                )
            except KafkaException as failure:
                is_new = failure.args[0].code() in _NO_LEADER_YET
                if not is_new or time.monotonic() > give_up_at:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _take(self, value: bytes | None, offset: int) -> None:
        try:
            claim = decode_claim(value)
        except ProtocolError as error:
            record = f"{self._partition.topic}:0:{offset}"
            raise OperationError(
                f"{record}: {error}. Nothing is done before all claims can be read: who wrote it "
                "must not write there, or use this version"
            ) from error
        self._of_operation.setdefault(claim.operation, set()).update(claim.halves)
        if claim.act is Act.RESUME:
            for half in claim.halves:
                self.resumed.setdefault(half, claim.operation)
