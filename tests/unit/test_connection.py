"""The connection without a broker: what it leaves behind."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from resolver.errors import SendError
from resolver.producer.client_options import client_options
from resolver.producer.connection import Connection
from resolver.producer.topic_limits import read_limits
from resolver.protocol import Names, Record

THREADS = Path("/proc/self/task")
RECORD = Record("tx.op", None, b"", [], 0)


def kafka_threads() -> set[str]:
    found = set()
    for thread in THREADS.iterdir():
        with suppress(FileNotFoundError):  # it has just ended
            if (thread / "comm").read_text().startswith("rdk:"):
                found.add(thread.name)
    return found


def test_asking_for_topics_in_vain_leaves_no_thread_of_librdkafka() -> None:
    before = kafka_threads()
    options = client_options("127.0.0.1:1", {"log_level": "0"}, "orders")
    with pytest.raises(SendError) as failed:
        read_limits(options, Names("tx."), 0.2)
    assert kafka_threads() <= before
    assert "no broker" in str(failed.value)


def test_a_closed_connection_has_no_thread_of_librdkafka_left_and_reports_what_it_drops() -> None:
    told: list[KafkaError] = []
    before = kafka_threads()
    options = client_options("127.0.0.1:1", {"log_level": "0"}, "orders")
    connection = Connection(options, "orders", 1000)
    connection.produce(RECORD, lambda error, message: told.append(error))
    assert kafka_threads() - before
    assert connection.close(0) == 1
    assert kafka_threads() <= before
    assert [error.code() for error in told] == [KafkaError._PURGE_QUEUE]
    assert connection.close(0) == 0
