"""The clock's fences on a real broker."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions
from leftovers import wait_until

from resolver.broker import Broker
from resolver.clock import Clock
from resolver.delivery import Delivery
from resolver.errors import TxResolverError
from resolver.kafka import admin_client, client_config
from resolver.protocol import Names
from resolver.settings import Settings
from resolver.topics import ensure_topics

PATIENCE_SECONDS = 60.0


def test_a_fence_that_was_not_stored_is_sent_again_by_a_new_client(
    kafka: Broker, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The marker is on another broker: it is not what is looked at here."""
    failures: list[TxResolverError] = []
    with Broker(tmp_path) as halted:
        settings = _settings(halted, prefix)
        delivery = Delivery(_settings(kafka, prefix), "checkpoint")
        delivery.start(is_new=True)
        clock = Clock(settings, delivery, failures.append)
        clock.start()
        try:
            os.kill(halted.pid, signal.SIGSTOP)
            with caplog.at_level(logging.WARNING, "resolver"):
                clock.set(0, 0)
                wait_until(lambda: "sent again by a new client" in caplog.text, PATIENCE_SECONDS)
            os.kill(halted.pid, signal.SIGCONT)
            before = _fences(settings)
            wait_until(lambda: _fences(settings) > before, PATIENCE_SECONDS)
        finally:
            os.kill(halted.pid, signal.SIGCONT)
            clock.stop()
            delivery.close()
    assert not failures


def test_a_partition_that_is_added_is_not_left_unread(kafka: Broker, prefix: str) -> None:
    failures: list[TxResolverError] = []
    settings = _settings(kafka, prefix)
    delivery = Delivery(settings, "checkpoint")
    delivery.start(is_new=True)
    half = Names(prefix).half
    admin = admin_client(settings)
    admin.create_partitions([NewPartitions(half, 2)])[half].result(PATIENCE_SECONDS)
    clock = Clock(settings, delivery, failures.append)
    clock.start()
    try:
        wait_until(lambda: failures, PATIENCE_SECONDS)
    finally:
        clock.stop()
        delivery.close()
    assert "has 1 partitions" in str(failures[0]) and "has 2" in str(failures[0])


def _settings(broker: Broker, prefix: str) -> Settings:
    settings = Settings(
        bootstrap_servers=broker.bootstrap, topic_prefix=prefix, queues=1, fence_interval_ms=100
    )
    ensure_topics(admin_client(settings), settings)
    return settings


def _fences(settings: Settings) -> int:
    consumer = Consumer(client_config(settings, **{"group.id": "fences"}))
    try:
        place = TopicPartition(Names(settings.topic_prefix).op, 0)
        return int(consumer.get_watermark_offsets(place, PATIENCE_SECONDS)[1])
    finally:
        consumer.close()
