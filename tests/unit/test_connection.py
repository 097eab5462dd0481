"""The connection to librdkafka's own mock of a broker, which can be made slow."""

from __future__ import annotations

import ctypes
import json
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer, cimpl

from resolver.connection import Connection, client_options
from resolver.errors import SendError
from resolver.protocol import Names, Record
from resolver.queues import read_queues

THREADS = Path("/proc/self/task")
RECORD = Record("tx.op", None, b"", [], 0)
KAFKA = ctypes.CDLL(cimpl.__file__)
KAFKA.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p


def handle_of(producer: Producer) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)


def test_the_acknowledgement_of_a_producer_that_failed_for_good_arrives_however_late() -> None:
    under_way, arrived = threading.Event(), threading.Event()
    told: list[KafkaError | None] = []

    def watch(statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        if any(broker["waitresp_msg_cnt"] for broker in brokers):
            under_way.set()

    def on_delivery(error: KafkaError | None, message: object) -> None:
        told.append(error)
        arrived.set()

    kafka = {
        "test.mock.num.brokers": "1",
        "log_level": "0",
        "stats_cb": watch,
        "statistics.interval.ms": "50",
    }
    connection = Connection(client_options("mock", kafka, "orders"), "orders", 1000)
    connection.produce(RECORD, on_delivery)
    assert arrived.wait(15)
    arrived.clear()

    broken = handle_of(connection._producer)
    cluster = ctypes.c_void_p(KAFKA.rd_kafka_handle_mock_cluster(broken))
    KAFKA.rd_kafka_mock_broker_set_rtt(cluster, -1, 2500)
    under_way.clear()
    connection.produce(RECORD, on_delivery)
    assert under_way.wait(15)
    KAFKA.rd_kafka_test_fatal_error(broken, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"a test")
    connection.produce(RECORD, lambda error, message: None)
    assert arrived.wait(15)
    assert told == [None, None]
    connection.close(0)


def kafka_threads() -> set[str]:
    found = set()
    for thread in THREADS.iterdir():
        with suppress(FileNotFoundError):  # it has just ended
            if (thread / "comm").read_text().startswith("rdk:"):
                found.add(thread.name)
    return found


only_linux = pytest.mark.skipif(not THREADS.exists(), reason="only Linux tells the threads' names")


@only_linux
def test_asking_for_topics_in_vain_leaves_no_thread_of_librdkafka() -> None:
    before = kafka_threads()
    options = client_options("127.0.0.1:1", {"log_level": "0"}, "orders")
    with pytest.raises(SendError) as failed:
        read_queues(options, Names("tx."), 0.2)
    assert kafka_threads() <= before
    assert "no broker" in str(failed.value)


@only_linux
def test_a_closed_connection_has_no_thread_of_librdkafka_left_and_reports_what_it_drops() -> None:
    told: list[KafkaError] = []
    before = kafka_threads()
    options = client_options("127.0.0.1:1", {"log_level": "0"}, "orders")
    connection = Connection(options, "orders", 1000)
    connection.produce(RECORD, lambda error, message: told.append(error))
    assert kafka_threads() > before
    assert connection.close(0) == 1
    assert kafka_threads() <= before
    assert [error.code() for error in told] == [KafkaError._PURGE_QUEUE]
    assert connection.close(0) == 0
