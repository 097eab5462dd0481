"""Requests that reach Kafka late, in the middle of the next transaction, and lost connections."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from enum import Enum, auto
from typing import Any
from weakref import ref

import msgpack
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
from resolver.kafka.clients import admin_client, client_config
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Half, HalfAt, Names, QuarantineReason, Refused, check_record
from resolver.resolve.delivery import Delivery
from resolver.resolve.delivery.packed import Decision, Output, as_output
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import end_offsets

from .kafka_proxy import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Fate,
    KafkaProxy,
)
from .real_topic import commit, make_real, values

#: Until something must have happened, on a busy machine.
SECONDS = 60.0
#: Kafka's errors of a request from before the newest epoch.
FENCED = {47, 90}  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
NO_ERROR = 0

Judge = Callable[[int, bytes], Fate]


def packed(decisions: list[Decision]) -> list[bytes]:
    """Pack decisions as the workers do."""
    return [msgpack.packb(decisions)]


class Network:
    """Topics of an own prefix, and a delivery whose only way to Kafka is a proxy."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self.settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=prefix, queues=1)
        ensure_topics(admin_client(self.settings), self.settings, ["orders"])
        self.names = Names(prefix)
        self.real = make_real(self.settings, f"real-{uuid.uuid4().hex[:8]}")
        self.judge: Judge = lambda request, frame: Fate.FORWARD
        # Not `self.judge` itself: a test puts another one there.
        judge: Judge = lambda request, frame: self.judge(request, frame)  # noqa: E731, PLW0108
        self.proxy = KafkaProxy(broker.bootstrap, judge)
        self._stored_at_ms = time.time_ns() // 1_000_000

    def delivery(self) -> Delivery:
        settings = replace(self.settings, bootstrap_servers=self.proxy.address)
        return Delivery(settings, "checkpoint")

    def decided(self, number: int) -> list[Decision]:
        """Return what a batch decided: ten commits."""
        offsets = range(10 * number, 10 * number + 10)
        return [commit(self.real, at, self._stored_at_ms, self.names) for at in offsets]

    def batch(self, number: int) -> list[bytes]:
        return packed(self.decided(number))

    def checks(self) -> list[Output]:
        """Return the first two checks of a half."""
        half = Half("id", "orders", self.real, 7, None, b"x", [])
        at = HalfAt(0, 100, 7, half, half.to_record(self.names.half).headers)
        return [as_output(check_record(at, number, self.names)) for number in (1, 2)]

    def refusals(self) -> list[Output]:
        """Return a refused record, and a refused element of it."""
        reason = QuarantineReason.MALFORMED_OP
        refused = [Refused("op:0:7", element, reason, "", None, b"x", []) for element in (None, 1)]
        return [as_output(one.to_record(self.names, 1_000_000)) for one in refused]

    def holds_once(self, *batches: int) -> bool:
        """Whether messages and outcomes of these batches are there, each once, and no others."""
        offsets = [10 * number + at for number in batches for at in range(10)]
        outcomes = [
            orjson.loads(value or b"") for value in values(self.settings, self.names.resolution)
        ]
        said = [(outcome["offset"], outcome["outcome"]) for outcome in outcomes]
        delivered = sorted(int(value or b"") for value in values(self.settings, self.real))
        return delivered == offsets and sorted(said) == [(at, "COMMIT") for at in offsets]

    def show_the_end_behind(self, stranger: Producer) -> None:
        """Abort another application's transaction on the real topic."""
        stranger.abort_transaction(30)
        options = {"bootstrap.servers": self.settings.bootstrap_servers}
        end = end_offsets(options, self.real, [0], "read_uncommitted")
        wait_until(lambda: end_offsets(options, self.real, [0], "read_committed") == end)

    def stored(self) -> int:
        """Return how many records are there, of open transactions too."""
        options = {"bootstrap.servers": self.settings.bootstrap_servers}
        topics = (self.real, self.names.resolution)
        return sum(end_offsets(options, topic, [0], "read_uncommitted")[0] for topic in topics)


@pytest.fixture
def network(kafka: Broker, prefix: str) -> Iterator[Network]:
    network = Network(kafka, prefix)
    yield network
    network.proxy.close()


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
    network: Network, caplog: pytest.LogCaptureFixture, how: Fate
) -> None:
    """It comes while half of the next batch is stored; of silence the client's time-out tells."""
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
        again.start(is_new=False, planned=lambda: 1)
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
    assert "batch 1: its transaction was ended, and not by this resolver" in caplog.text
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
        again.start(is_new=False, planned=lambda: 1)
        again.deliver(1, network.batch(1))
        again.deliver(2, network.batch(2))
    assert network.holds_once(0, 1, 2)
    assert "batch 1: 20 of its records are visible already" in caplog.text


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
        first.deliver(0, packed([Decision(message) for message in there if message is not None]))
    with closing(network.delivery()) as again:
        again.start(is_new=False, planned=lambda: 1)
        rest = [Decision(message) for message in (*checks, *refusals)]
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
            again.start(is_new=True, planned=lambda: 1)
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
        again.start(is_new=False, planned=lambda: 1)
        again.deliver(1, packed([*network.decided(0), *network.decided(1)]))
    assert len(clients) >= 2
    assert "can't be read" not in caplog.text
    assert network.holds_once(0, 1)
    assert "batch 1: 20 of its records are visible already" in caplog.text


def test_a_client_that_is_not_told_all_costs_a_replay_no_attempt(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One finds no leader: it asked a broker that was cut off. To another a broker is silent."""
    monkeypatch.setattr("resolver.resolve.delivery.delivery._ANSWER_SECONDS", SECONDS)
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
        again.start(is_new=False, planned=lambda: 1)
        again.deliver(1, packed([*network.decided(0), *network.decided(1)]))
    assert len(clients) == 3
    assert network.holds_once(0, 1)
    assert "batch 1 is not written yet" not in caplog.text


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
    monkeypatch.setattr("resolver.resolve.delivery.delivery._ANSWER_SECONDS", 1.0)
    monkeypatch.setattr("resolver.resolve.delivery.delivery._PAUSE_SECONDS", 0.1)
    # So that a busy machine parks no topic.
    monkeypatch.setattr("resolver.resolve.delivery.transactional_producer._NEXT_SHARE", 60.0)
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
