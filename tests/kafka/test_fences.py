"""The fence timer on a real broker."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from resolver.broker import Broker
from resolver.errors import TxResolverError
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.resolve.delivery import Delivery
from resolver.resolve.fences import FenceTimer
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import end_offsets

from .kafka_proxy import INIT_PRODUCER_ID, OFFSET_FETCH, Fate
from .network import Network

#: Looks at a silent marker, one before each fence. Of half a minute each, which delivery allows
#: elsewhere, they would take longer than the patience.
LOOKS = 60


def test_a_fence_that_was_not_stored_is_sent_again_by_a_new_client(
    kafka: Broker, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The marker is on another broker: it is not what is looked at here."""
    failures: list[TxResolverError] = []
    with Broker(tmp_path) as halted:
        settings = _settings(halted, prefix)
        delivery = Delivery(_settings(kafka, prefix), "checkpoint")
        delivery.start(is_new=True)
        timer = FenceTimer(settings, delivery, "secret", failures.append)
        timer.start()
        try:
            os.kill(halted.pid, signal.SIGSTOP)
            with caplog.at_level(logging.WARNING, "resolver"):
                timer.set(0, 0)
                wait_until(lambda: "sent again by a new client" in caplog.text)
            os.kill(halted.pid, signal.SIGCONT)
            before = _fences(settings)
            wait_until(lambda: _fences(settings) > before)
        finally:
            os.kill(halted.pid, signal.SIGCONT)
            timer.stop()
            delivery.close()
    assert not failures


def test_fences_go_on_while_nobody_tells_the_marker(
    kafka: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator may have been halted, or cut off."""
    monkeypatch.setattr("resolver.resolve.fences._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("resolver.resolve.fences._MARKER_SECONDS", 0.1)
    failures: list[TxResolverError] = []
    with closing(Network(kafka, prefix)) as network, closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        network.judge = lambda request, _frame: (
            Fate.HOLD_SILENTLY if request == OFFSET_FETCH else Fate.FORWARD
        )
        timer = FenceTimer(_settings(kafka, prefix), delivery, "secret", failures.append)
        before = _fences(network.settings)
        timer.start()
        try:
            timer.set(0, 0)
            wait_until(lambda: _fences(network.settings) >= before + LOOKS)
        finally:
            timer.stop()
    assert network.proxy.held
    assert not failures


def test_after_a_look_that_failed_the_next_batch_has_a_new_producer(
    kafka: Broker, prefix: str
) -> None:
    """The old one stays with a coordinator that has died, and its first attempt fails."""
    with closing(Network(kafka, prefix)) as network, closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        delivery.deliver(0, network.batch(0))
        network.judge = lambda request, _frame: (
            Fate.HOLD_SILENTLY if request == OFFSET_FETCH else Fate.FORWARD
        )
        assert not delivery.replaced(0.1)
        requests: list[int] = []

        def noting(request: int, _frame: bytes) -> Fate:
            requests.append(request)
            return Fate.FORWARD

        network.judge = noting
        delivery.deliver(1, network.batch(1))
        assert INIT_PRODUCER_ID in requests
        assert network.holds_once(0, 1)


def test_a_partition_that_is_added_is_not_left_unread(kafka: Broker, prefix: str) -> None:
    failures: list[TxResolverError] = []
    settings = _settings(kafka, prefix)
    delivery = Delivery(settings, "checkpoint")
    delivery.start(is_new=True)
    half = Names(prefix).half
    admin = admin_client(settings)
    admin.create_partitions([NewPartitions(half, 2)])[half].result(PATIENCE_SECONDS)
    timer = FenceTimer(settings, delivery, "secret", failures.append)
    timer.start()
    try:
        wait_until(lambda: failures)
    finally:
        timer.stop()
        delivery.close()
    assert "has 1 partitions" in str(failures[0]) and "has 2" in str(failures[0])


def _settings(broker: Broker, prefix: str) -> Settings:
    settings = Settings(
        bootstrap_servers=broker.bootstrap, topic_prefix=prefix, queues=1, fence_interval_ms=100
    )
    ensure_topics(admin_client(settings), settings)
    return settings


def _fences(settings: Settings) -> int:
    options = {"bootstrap.servers": settings.bootstrap_servers}
    return end_offsets(options, Names(settings.topic_prefix).op, [0])[0]
