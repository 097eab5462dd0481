"""The connection to a real broker, of which the answers to produce requests come late or wrong."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from resolver.broker import Broker
from resolver.producer.client_options import client_options
from resolver.producer.connection import Connection
from resolver.protocol import Record
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .kafka_proxy import PRODUCE, Fate, KafkaProxy
from .real_topic import make_real

#: Between a topic's name and its error in the answer: the count of partitions, and a partition.
_TO_THE_ERROR = 1 + 4


class Answers:
    """A proxy that keeps the answers for one topic back, and spoils those for another."""

    def __init__(self, broker: str, late: str, refused: str) -> None:
        self.late, self.refused = late, refused
        self._produced: set[bytes] = set()
        self.is_on = False
        self.kept: list[tuple[socket.socket, bytes]] = []
        self.proxy = KafkaProxy(broker, self._judge, self._answered)

    def let_go(self) -> None:
        """Send what was kept back."""
        for client, answer in self.kept:
            client.sendall(answer)

    def _judge(self, request: int, frame: bytes) -> Fate:
        if request == PRODUCE:
            self._produced.add(frame[8:12])
        return Fate.FORWARD

    def _answered(self, client: socket.socket, frame: bytes) -> bytes | None:
        if not self.is_on or frame[4:8] not in self._produced:
            return frame
        if self.late.encode() in frame:
            self.kept.append((client, frame))
            return None
        at = frame.index(self.refused.encode()) + len(self.refused) + _TO_THE_ERROR
        error = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER.to_bytes(2, "big")
        return frame[:at] + error + frame[at + 2 :]


@pytest.fixture
def answers(kafka: Broker) -> Iterator[Answers]:
    settings = Settings(bootstrap_servers=kafka.bootstrap)
    topics = [make_real(settings, f"{name}-{uuid.uuid4().hex[:8]}") for name in ("late", "refused")]
    made = Answers(kafka.bootstrap, *topics)
    yield made
    made.proxy.close()


def test_the_acknowledgement_of_a_producer_that_failed_for_good_arrives_however_late(
    answers: Answers,
) -> None:
    late = Record(answers.late, None, b"", [], 0)
    refused = late._replace(topic=answers.refused)
    arrived = threading.Event()
    told: list[KafkaError | None] = []
    spoilt: list[KafkaError | None] = []
    acknowledged: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, message: object) -> None:
        told.append(error)
        arrived.set()

    connection = Connection(
        client_options(answers.proxy.address, {"log_level": "0"}, "orders"), "orders", 1000
    )
    broken = connection._producer
    for record in (late, refused):
        arrived.clear()
        connection.produce(record, on_delivery)
        assert arrived.wait(PATIENCE_SECONDS)
    arrived.clear()

    answers.is_on = True
    connection.produce(late, on_delivery)
    wait_until(lambda: answers.kept)
    connection.produce(refused, lambda error, message: spoilt.append(error))
    wait_until(lambda: spoilt)
    answers.is_on = False
    for count in (1, 2):  # between the two the broken one was looked after
        connection.produce(refused, lambda error, message: acknowledged.append(error))
        wait_until(lambda: len(acknowledged) == count)  # noqa: B023
    assert connection._producer is not broken
    assert not arrived.is_set()
    answers.let_go()
    assert arrived.wait(PATIENCE_SECONDS)
    assert told == [None, None, None]
    assert acknowledged == [None, None]
    assert [error.code() for error in spoilt if error] == [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER]
    connection.close(0)
