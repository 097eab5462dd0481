"""Requests that reach Kafka late, in the middle of the next transaction, and lost connections."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from resolver.broker import Broker
from tests.support.patience import wait_until

from .kafka_proxy import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Fate,
)
from .network import Judge, Network

#: Kafka's errors of a request from before the newest epoch.
FENCED = {47, 90}  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
NO_ERROR = 0


@pytest.fixture
def network(kafka: Broker, prefix: str) -> Iterator[Network]:
    with closing(Network(kafka, prefix)) as network:
        yield network


class Late:
    """Holds the first request of a kind back, and lets it go in the middle of the next batch.

    `then`, of that batch, is told of each request, and says whether it goes before this one.
    """

    def __init__(
        self, network: Network, held: int, then: Callable[[int], bool], how: Fate = Fate.HOLD
    ) -> None:
        self._network, self._held, self._then, self._how = network, held, then, how
        self._is_next = False
        self.answer: bytes | None = None

    def next_batch(self) -> None:
        assert len(self._network.proxy.held) == 1
        self._is_next = True

    def __call__(self, number: int, frame: bytes) -> Fate:
        held = self._network.proxy.held
        if number == PRODUCE and self._network.names.parked.encode() in frame:
            return Fate.FORWARD  # it marks the lane's end, and is of no batch
        if not self._is_next:
            return self._how if number == self._held and not held else Fate.FORWARD
        if self.answer is None and self._then(number):
            self.answer = held[0].let_go()
        return Fate.FORWARD

    @property
    def end_error(self) -> int:
        """What Kafka said to an EndTxn: behind how long it throttles."""
        assert self.answer is not None
        return int.from_bytes(self.answer[4:6], "big")

    @property
    def offsets_error(self) -> int:
        """What Kafka said to a TxnOffsetCommit of one partition: before its two bytes of tags."""
        assert self.answer is not None
        return int.from_bytes(self.answer[-5:-3], "big")


def between_two_produces(network: Network) -> Callable[[int], bool]:
    """Say when half of a batch is stored: its messages or its outcomes."""
    before: list[int] = []

    def then(number: int) -> bool:
        if number != PRODUCE:
            return False
        if not before:
            before.append(network.stored())
            return False
        wait_until(lambda: network.stored() > before[0])
        return True

    return then


def before_the_end(number: int) -> bool:
    return number == END_TXN


def deliver_with_a_late(network: Network, late: Late, batches: int) -> None:
    with closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        network.judge = late
        delivery.deliver(0, network.batch(0))
        late.next_batch()
        for number in range(1, batches):
            delivery.deliver(number, network.batch(number))


@pytest.mark.parametrize(
    "how", [pytest.param(Fate.HOLD, marks=pytest.mark.gate), Fate.HOLD_SILENTLY]
)
def test_a_late_commit_is_refused(
    network: Network,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    how: Fate,
) -> None:
    """It comes while half of the next batch is stored; of silence the client's time-out tells."""
    # So that the wait for this half parks no topic.
    monkeypatch.setattr("resolver.resolve.delivery.batch_producer._NEXT_SHARE", 60.0)
    if how is Fate.HOLD_SILENTLY:
        network.settings = replace(network.settings, kafka={"socket.timeout.ms": "1000"})
    late = Late(network, END_TXN, between_two_produces(network), how)
    deliver_with_a_late(network, late, 3)
    assert late.end_error in FENCED
    assert network.holds_once(0, 1, 2)
    assert "visible already" not in caplog.text


def test_a_late_marker_is_refused(network: Network) -> None:
    """It would take the place of the next batch's marker."""
    late = Late(network, TXN_OFFSET_COMMIT, before_the_end)
    deliver_with_a_late(network, late, 2)
    assert late.offsets_error in FENCED
    with closing(network.delivery()) as again:
        again.start(is_new=False, last_planned=lambda: 1)
        again.deliver(1, network.batch(1))
    assert network.holds_once(0, 1)


def test_a_batch_that_a_late_commit_tore_is_mended(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the client did not wait before it sends a request again."""
    monkeypatch.setattr("resolver.kafka.epoch._LIMIT_SECONDS", 1e9)
    late = Late(network, END_TXN, between_two_produces(network))
    deliver_with_a_late(network, late, 3)
    assert late.end_error == NO_ERROR
    assert network.holds_once(0, 1, 2)
    assert "batch 1: the transaction was ended, and not by this resolver" in caplog.text
    assert "batch 1: 10 of its records are visible already" in caplog.text


def test_a_marker_that_a_late_one_set_back_doubles_nothing(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay of a batch that the marker has lost, after a kill."""
    monkeypatch.setattr("resolver.kafka.epoch._LIMIT_SECONDS", 1e9)
    late = Late(network, TXN_OFFSET_COMMIT, before_the_end)
    deliver_with_a_late(network, late, 2)
    assert late.offsets_error == NO_ERROR
    with closing(network.delivery()) as again:
        again.start(is_new=False, last_planned=lambda: 1)
        again.deliver(1, network.batch(1))
        again.deliver(2, network.batch(2))
    assert network.holds_once(0, 1, 2)
    assert "batch 1: 20 of its records are visible already" in caplog.text


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_ANSWER])
@pytest.mark.parametrize(
    "request_kind", [ADD_PARTITIONS, PRODUCE, ADD_OFFSETS, TXN_OFFSET_COMMIT, END_TXN]
)
def test_a_connection_that_is_lost_costs_no_second_attempt(
    network: Network, caplog: pytest.LogCaptureFixture, request_kind: int, fate: Fate
) -> None:
    """Not with any request: the client sends it again by itself."""
    lost: list[int] = []

    def lose_one(number: int, frame: bytes) -> Fate:
        if number != request_kind or lost:
            return Fate.FORWARD
        lost.append(number)
        return fate

    with closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        network.judge = lose_one
        delivery.deliver(0, network.batch(0))
        delivery.deliver(1, network.batch(1))
    assert lost == [request_kind]
    assert network.holds_once(0, 1)
    assert "trying again" not in caplog.text


@pytest.mark.parametrize(("request_kind", "claims"), [(JOIN_GROUP, 1), (INIT_PRODUCER_ID, 2)])
def test_a_coordinator_that_is_silent_at_the_start_is_asked_by_a_new_client(
    network: Network, monkeypatch: pytest.MonkeyPatch, request_kind: int, claims: int
) -> None:
    """As one that was cut off from the other brokers. The late request does no harm."""
    monkeypatch.setattr("resolver.resolve.delivery.delivery._CLAIMS", claims)
    monkeypatch.setattr("resolver.resolve.delivery.marker_group._TIMEOUT_SECONDS", 15.0)

    def judge(request: int, _frame: bytes) -> Fate:
        is_first = request == request_kind and not network.proxy.held
        return Fate.HOLD_SILENTLY if is_first else Fate.FORWARD

    network.judge = judge
    with closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        delivery.deliver(0, network.batch(0))
        network.proxy.held[0].let_go()
        delivery.deliver(1, network.batch(1))
        delivery.deliver(2, network.batch(2))
    assert network.holds_once(0, 1, 2)


def test_delivery_waits_long_for_a_slow_kafka_but_not_after_a_failure(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After failures that last, the next one would hold up delivery for a minute."""
    monkeypatch.setattr("resolver.resolve.delivery.attempts._ANSWER_SECONDS", 1.0)
    monkeypatch.setattr("resolver.resolve.delivery.attempts._MOST_PAUSE_SECONDS", 0.1)
    # So that a busy machine parks no topic.
    monkeypatch.setattr("resolver.resolve.delivery.batch_producer._NEXT_SHARE", 60.0)
    failures: list[int] = []

    def deliver(*batches: int) -> None:
        """Deliver batches; `failures` are then the waits in seconds of the attempts that failed."""
        caplog.clear()
        for number in batches:
            delivery.deliver(number, network.batch(number))
        waits = re.findall(r"offsets were not sent within (\d+) s", caplog.text)
        failures[:] = map(int, waits)

    def silent_for(attempts: int) -> Judge:
        def judge(request: int, _frame: bytes) -> Fate:
            is_held = request == TXN_OFFSET_COMMIT
            is_held &= caplog.text.count("trying again") < attempts
            return Fate.HOLD_SILENTLY if is_held else Fate.FORWARD

        return judge

    def slow(request: int, _frame: bytes) -> Fate:
        if request == TXN_OFFSET_COMMIT:
            time.sleep(2.5)
        return Fate.FORWARD

    with closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        network.judge = silent_for(3)
        deliver(0)
        assert failures[-1] > failures[0]
        deliver(1)
        network.judge = silent_for(1)
        deliver(2)
        assert failures[0] < 4
        network.judge = slow
        deliver(3, 4, 5)
        assert caplog.text.count("trying again") < 3  # not one for each batch
    assert network.holds_once(*range(6))
