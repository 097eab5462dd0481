"""A batch that may have been written: exactly what is not visible of it is written."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from enum import Enum, auto
from typing import Any
from weakref import ref

import orjson
import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo  # type: ignore[attr-defined]

from resolver.broker import Broker
from resolver.kafka.clients import client_config
from resolver.resolve.delivery.packed import DecisionRecords
from tests.support.patience import PATIENCE_SECONDS

from .network import Network, packed
from .real_topic import commit, make_real, values

#: A busy machine has so long for whatever is awaited.
SECONDS = 60.0


@pytest.fixture
def network(kafka: Broker, prefix: str) -> Iterator[Network]:
    with closing(Network(kafka, prefix)) as network:
        yield network


def test_of_a_replay_exactly_what_is_missing_is_written(network: Network) -> None:
    """Of each kind of record some is there, and of one commit only the half, each way."""
    names = network.names
    decided = network.decided(0)
    given_up = decided[2].undeliverable("topic is full", names)
    there = [decided[0].message, decided[1].resolution, given_up.message, decided[3].message]
    there += [decided[3].resolution]
    checks, refusals = network.checks(), network.refusals()
    there += [checks[0], refusals[0]]
    with closing(network.delivery()) as first:
        first.start(is_new=True)
        first.deliver(
            0, packed([DecisionRecords(message) for message in there if message is not None])
        )
    with closing(network.delivery()) as again:
        again.start(is_new=False, last_planned=lambda: 1)
        rest = [DecisionRecords(message) for message in (*checks, *refusals)]
        again.deliver(1, packed([*decided, *rest]))
    assert len(values(network.settings, names.check("orders"))) == len(checks)
    assert len(values(network.settings, names.quarantine)) == len(refusals)
    delivered = values(network.settings, network.real)
    assert sorted(value or b"" for value in delivered) == sorted(
        str(at).encode() for at in range(10) if at != 2
    )
    assert values(network.settings, names.discarded) == [b"2"]
    outcomes = [orjson.loads(value or b"") for value in values(network.settings, names.resolution)]
    said = sorted((one["offset"], one["outcome"]) for one in outcomes)
    assert said == [(at, "UNDELIVERABLE" if at == 2 else "COMMIT") for at in range(10)]


def hiding_the_end(network: Network) -> Producer:
    """Open another application's transaction on the real topic."""
    options = {"bootstrap.servers": network.settings.bootstrap_servers}
    stranger = Producer({**options, "transactional.id": uuid.uuid4().hex})
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(network.real, b"-1")
    stranger.flush(PATIENCE_SECONDS)
    return stranger


def test_another_open_transaction_on_a_topic_keeps_nobody_waiting(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hides a topic's end from a replay: all is delivered, and the log names the topic."""
    monkeypatch.setattr("resolver.resolve.delivery.readback._PATIENCE_SECONDS", 1.0)
    other = make_real(network.settings, f"other-{uuid.uuid4().hex[:8]}")
    elsewhere = commit(other, 20, time.time_ns() // 1_000_000, network.names)
    stranger = hiding_the_end(network)
    with closing(network.delivery()) as again, ThreadPoolExecutor() as pool:
        try:
            again.start(is_new=True, last_planned=lambda: 1)
            delivering = pool.submit(again.deliver, 1, packed([*network.decided(1), elsewhere]))
            delivering.result(SECONDS)
            assert values(network.settings, other) == [b"20"]
            assert len(values(network.settings, network.names.resolution)) == 11
        finally:
            stranger.abort_transaction(30)
    delivered = values(network.settings, network.real)
    assert sorted(value or b"" for value in delivered) == [b"%d" % at for at in range(10, 20)]
    assert f"the end of {network.real} can't be read" in caplog.text
    assert f"topic {network.real} is looked at up to an open transaction only" in caplog.text


class CutOff(Enum):
    """What a leader that was cut off from the others shows, and a new client does not see."""

    OPEN_TRANSACTION = auto()
    NO_LAST_RECORD = auto()
    NO_FIRST_RECORD = auto()


@pytest.mark.parametrize("shown", CutOff)
def test_a_leader_that_was_cut_off_hides_nothing_from_a_replay(
    network: Network,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    shown: CutOff,
) -> None:
    """A client stays with such a leader, so a new one reads on."""
    monkeypatch.setattr("resolver.resolve.delivery.readback._PATIENCE_SECONDS", SECONDS)
    clients: list[Consumer] = []

    class Reading(Consumer):
        def __init__(self, *options: Any) -> None:
            super().__init__(*options)
            clients.append(self)
            self._is_first = len(clients) == 1
            if len(clients) == (1 if shown is CutOff.NO_FIRST_RECORD else 2):
                network.show_the_end_behind(stranger)

        def assign(self, partitions: list[TopicPartition]) -> None:
            if self._is_first and shown is CutOff.NO_FIRST_RECORD:
                for place in partitions:
                    place.offset += 1_000
            super().assign(partitions)

        def consume(self, *limits: Any) -> list[Message]:
            messages = super().consume(*limits)
            if not self._is_first or shown is not CutOff.NO_LAST_RECORD:
                return messages
            return [message for message in messages if message.error() is None]

        def get_watermark_offsets(self, *asked: Any, **options: Any) -> tuple[int, int]:
            low, end = super().get_watermark_offsets(*asked, **options)
            return low, end - (self._is_first and shown is CutOff.NO_LAST_RECORD)

    monkeypatch.setattr("resolver.resolve.delivery.readback.Consumer", Reading)
    stranger = hiding_the_end(network)
    with closing(network.delivery()) as first:
        first.start(is_new=True)
        first.deliver(0, network.batch(0))
    with closing(network.delivery()) as again:
        again.start(is_new=False, last_planned=lambda: 1)
        again.deliver(1, packed([*network.decided(0), *network.decided(1)]))
    assert len(clients) >= 2
    assert "can't be read" not in caplog.text
    assert network.holds_once(0, 1)
    assert "batch 1: 20 of its records are visible already" in caplog.text


def test_a_client_that_is_not_told_all_costs_a_replay_no_attempt(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One finds no leader: it asked a broker that was cut off. To another a broker is silent."""
    monkeypatch.setattr("resolver.resolve.delivery.attempts._ANSWER_SECONDS", SECONDS)
    clients: list[ref[AdminClient]] = []

    class Asking(AdminClient):
        def __init__(self, *options: Any) -> None:
            super().__init__(*options)
            # A batch puts off the collection of garbage.
            assert all(client() is None for client in clients)
            clients.append(ref(self))
            self._is_asked = False

        # The type stubs of AdminClient contradict those of its own base.
        def list_offsets(self, asked: Any, **options: Any) -> Any:  # type: ignore[override]
            answer: Future[Any] = Future()
            if self._is_asked or len(clients) > 2:
                return super().list_offsets(asked, **options)
            self._is_asked = True
            if len(clients) == 1:
                answer.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
            else:
                answer.set_result(ListOffsetsResultInfo(-1001, -1, -1))  # as librdkafka says it
            return dict.fromkeys(asked, answer)

    monkeypatch.setattr(
        "resolver.resolve.delivery.readback.admin_client",
        lambda settings: Asking(client_config(settings)),
    )
    with closing(network.delivery()) as first:
        first.start(is_new=True)
        first.deliver(0, network.batch(0))
    with closing(network.delivery()) as again:
        again.start(is_new=False, last_planned=lambda: 1)
        again.deliver(1, packed([*network.decided(0), *network.decided(1)]))
    assert len(clients) == 3
    assert network.holds_once(0, 1)
    assert "batch 1 is not written yet" not in caplog.text
