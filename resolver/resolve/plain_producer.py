"""The resolver's own records in the queues' topics: stored one by one, in no batch's transaction.

They are fences and revocations. Both may be stored twice, and are asked for until they are read
back. So a record that is not stored is dropped here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..errors import ResolverError
from ..kafka.clients import LEADER_OPTIONS, client_config
from ..protocol import Record
from ..settings import Settings

logger = logging.getLogger(__name__)

_SECONDS = 10


class PlainProducer:
    """Stores records of a kind, such as `fence`; a new client follows one that has failed."""

    def __init__(self, settings: Settings, kind: str) -> None:
        self._settings = settings
        self._kind = kind
        self._has_lost = False
        self._forbidden = ""
        self._producer = self._connected()

    def send(self, records: Iterable[Record]) -> None:
        """Hand records to the client, which stores them in the background.

        Raises `ResolverError` if an earlier record was refused because a right is missing.
        """
        if self._has_lost:
            # A client that forgot all brokers may not find them again: librdkafka's issue 5301.
            self.close()
            self._producer, self._has_lost = self._connected(), False
        for record in records:
            self._produce(record)
        self._producer.poll(0)
        if self._forbidden:
            raise ResolverError(
                f"no permission to write {self._kind}s to {self._forbidden}",
                remedy="grant the resolver Write on it (`txresolver topics create --acls`), and "
                "start again",
            )

    def close(self) -> None:
        """Close the client and drop the records that it still holds: they are sent again.

        Waiting for a partition without a leader would hold up the records of all queues.
        """
        self._has_lost = True  # suppresses warnings about the dropped records
        self._producer.purge()
        self._producer.close()

    def _connected(self) -> Producer:
        ours = {
            **LEADER_OPTIONS,
            # No idempotence: an idempotent client may fail for good. A second record does no harm.
            "acks": "all",
            "allow.auto.create.topics": False,
            "message.timeout.ms": _SECONDS * 1_000,
            "on_delivery": self._report,
        }
        return Producer(client_config(self._settings, **ours))

    def _produce(self, record: Record) -> None:
        try:
            self._producer.produce(
                record.topic,
                record.value,
                partition=record.partition,
                headers=list(record.headers),
            )
        except (BufferError, KafkaException) as error:
            logger.warning(
                "the %s of queue %d is sent a little later: %s", self._kind, record.partition, error
            )

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._forbidden = str(message.topic())
        elif error is not None and not self._has_lost:
            logger.warning(
                "the %s of queue %s was not stored in %s (%s): sent again by a new client",
                self._kind,
                message.partition(),
                message.topic(),
                error.str(),
            )
            self._has_lost = True
