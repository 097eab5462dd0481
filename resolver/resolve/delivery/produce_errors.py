"""Errors by which Kafka refuses a record, or a whole topic, for good."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError

from .packed import Output

#: Errors of a whole topic, and of one message, that another attempt does not heal.
TOPIC_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
MESSAGE_ERRORS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)


class ProduceRefused(Exception):
    """A topic refuses records for good: one of `messages`, or any record if there are none."""

    def __init__(self, topic: str, error: KafkaError, messages: Sequence[Output]) -> None:
        super().__init__(f"{topic}: {error.str()}")
        self.topic = topic
        self.error = error
        self.messages = messages

    @property
    def is_size(self) -> bool:
        """Whether the reason is a record's size."""
        return self.error.code() in (
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.RECORD_LIST_TOO_LARGE,
        )
