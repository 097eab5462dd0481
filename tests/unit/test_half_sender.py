"""What Kafka answers for a half."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message

from resolver.producer.half_sender import SentHalf
from resolver.protocol import Half


def test_a_half_whose_offset_the_broker_does_not_know_is_not_acknowledged() -> None:
    """A retry met an earlier success: librdkafka reports a success without an offset."""
    sent = SentHalf(Half("id", "orders", "orders.placed", 0, None, b"x", []), 0)
    sent.take_answer(None, Message(topic="tx.half", partition=0))
    assert not sent.is_stored
    assert isinstance(sent.error, KafkaException)
    assert sent.error.args[0].code() == KafkaError.DUPLICATE_SEQUENCE_NUMBER
