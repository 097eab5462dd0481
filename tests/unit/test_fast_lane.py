"""The fast lane without Kafka: which commits it takes, and what becomes of them when it fails."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from resolver import Message, Transaction, TransactionEnd, TransactionStatus
from resolver.errors import CommitNotAcknowledged, SendError
from resolver.producer.fast import FastLane, FastLimits
from resolver.producer.fast.client import GroupFailed
from resolver.producer.half_sender import SentHalf
from resolver.producer.op_publisher import OpPublisher
from resolver.protocol import Half, Names, Op, Record, decode_op
from tests.support.patience import PATIENCE_SECONDS, wait_until

NAMES = Names("tx.")
TOPIC = "orders.placed"


class Kafka:
    """What the lane's clients meet: they fail, wait or are spent as a test says."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, list[Record]]] = []
        self.begun_at: list[float] = []
        self.clients: list[Client] = []
        self.failures: deque[GroupFailed | None] = deque()
        self.refuses_ids = False
        self.is_slow = False
        self.lets_go = threading.Event()
        self.lets_go.set()

    def __call__(self, options: object, fast_id: str, batch_bytes: int) -> Client:
        client = Client(self, fast_id)
        self.clients.append(client)
        return client

    @property
    def delivered(self) -> list[str]:
        """Return the ids of the messages that are visible, in order."""
        return [
            dict(record.headers)["UNIQ_KEY"].decode()  # type: ignore[union-attr]
            for _, records in self.groups
            for record in records
            if record.topic != NAMES.op
        ]


class Client:
    def __init__(self, kafka: Kafka, fast_id: str) -> None:
        self.fast_id = fast_id
        self.is_spent = False
        self.is_dropped = False
        self.inits = 0
        self._kafka = kafka

    def init(self, stopping: threading.Event) -> None:
        self.inits += 1
        if self._kafka.refuses_ids:
            raise KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))

    def write(self, records: Iterable[Record]) -> None:
        assert not self.is_dropped and not self.is_spent
        self._kafka.begun_at.append(time.monotonic())
        written = list(records)
        assert self._kafka.lets_go.wait(PATIENCE_SECONDS)
        failure = self._kafka.failures.popleft() if self._kafka.failures else None
        if failure is not None:
            raise failure
        self._kafka.groups.append((self.fast_id, written))
        self.is_spent = self._kafka.is_slow

    def poll(self) -> None: ...

    def drop(self) -> None:
        self.is_dropped = True


class Connection:
    """Takes the ops of the slow way, and acknowledges them."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def produce(self, record: Record, on_delivery: Callable[[Any, Any], None]) -> None:
        self.ops.append(decode_op(record.value, record.headers))
        on_delivery(None, None)


class Bench:
    """A lane and what is around it."""

    def __init__(self, linger: float = 0.0, immunity: float = 60.0) -> None:
        self.shown: list[TransactionEnd] = []
        self.connection = Connection()
        connection: Any = self.connection
        self.publisher = OpPublisher(connection, "orders", NAMES.op, 4096, 0, [self.shown.append])
        limits = FastLimits(linger, immunity, 1_000_000, 1_000_000)
        self.lane = FastLane({}, "orders", NAMES, limits, self.publisher)
        self.lane.wait_ready(PATIENCE_SECONDS)
        self._offset = 0

    def begin(self, topic: str = TOPIC, seconds: int | None = None) -> Transaction:
        """Store a half, and return its transaction."""
        self._offset += 1
        half = Half(
            f"t{self._offset}", "orders", topic, time.time_ns() // 1_000_000, b"k", b"body", [],
            None, seconds,
        )  # fmt: skip
        sent = SentHalf(self.lane.name(half), 0)
        sent.offset, sent.stored_at_ms = self._offset, 1_700_000_000_000
        message = Message.of_half(sent.half, sent.half_id)
        fast = self.lane.begin(sent, message)
        return Transaction(
            self.publisher, message, sent.half_id, None, fast, float(PATIENCE_SECONDS)
        )

    def fast_id(self) -> str | None:
        return self.lane.name(Half("t", "orders", TOPIC, 0, None, None, [])).fast_id

    def ends(self) -> list[tuple[str, str, bool]]:
        """Return the ends of the slow way: id, state, and whether it may yet be fast."""
        return [
            (element.transaction_id, op.state.value, not op.gives_up_fast)
            for op in self.connection.ops
            for element in op.elements
        ]

    def commits(self) -> list[str]:
        return [name for name, state, _ in self.ends() if state == "COMMIT_MESSAGE"]

    def given_up(self) -> list[str]:
        return [name for name, _, fast in self.ends() if not fast]

    def close(self) -> None:
        self.lane.close(PATIENCE_SECONDS)
        self.publisher.close(PATIENCE_SECONDS)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()
    monkeypatch.setattr("resolver.producer.fast.lane.FastClient", kafka)
    return kafka


@pytest.fixture
def make(kafka: Kafka) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**limits: float) -> Bench:
        made.append(Bench(**limits))
        return made[-1]

    yield make
    kafka.lets_go.set()
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    return make()


def fenced() -> GroupFailed:
    return GroupFailed(KafkaError(KafkaError._FENCED))


def test_a_fast_commit_is_visible_when_the_wait_returns_and_sends_no_other_op(
    kafka: Kafka, bench: Bench
) -> None:
    tx = bench.begin()
    assert tx.commit(wait=True) is True
    [(fast_id, _)] = kafka.groups
    assert fast_id.startswith("tx.fast:orders:")
    assert kafka.delivered == [tx.transaction_id]
    bench.close()
    assert bench.connection.ops == []
    [end] = bench.shown
    assert (end.transaction_id, end.state) == (tx.transaction_id, TransactionStatus.COMMIT_MESSAGE)


def test_commits_that_come_during_a_transaction_share_the_next(kafka: Kafka, bench: Bench) -> None:
    kafka.lets_go.clear()
    begun = [bench.begin() for _ in range(20)]
    begun[0].commit()
    wait_until(lambda: kafka.begun_at)
    for tx in begun[1:]:
        assert tx.commit() is False
    kafka.lets_go.set()
    wait_until(lambda: len(kafka.delivered) == 20)
    assert len(kafka.groups) == 2
    assert kafka.delivered == [tx.transaction_id for tx in begun]


def test_transactions_begin_no_sooner_after_each_other_than_the_linger_time(
    kafka: Kafka, make: Callable[..., Bench]
) -> None:
    bench = make(linger=0.2)
    for _ in range(3):
        assert bench.begin().commit(wait=True)
    gaps = [later - before for before, later in pairwise(kafka.begun_at)]
    assert len(gaps) == 2
    assert min(gaps) >= 0.1  # each begin is noted a little late, on a busy machine


def test_a_lone_commit_does_not_linger(kafka: Kafka, make: Callable[..., Bench]) -> None:
    bench = make(linger=float(PATIENCE_SECONDS))
    assert bench.begin().commit(wait=True)


@pytest.mark.parametrize("way", ["rollback", "unknown"])
def test_other_ends_are_ordinary_ops(kafka: Kafka, bench: Bench, way: str) -> None:
    tx = bench.begin()
    getattr(tx, way)()
    wait_until(bench.ends)
    [(name, state, fast)] = bench.ends()
    assert (name, state.partition("_")[0].lower()) == (tx.transaction_id, way)
    # Otherwise the half would have the fast id revoked when it is due.
    assert fast is (way == "rollback")
    assert not kafka.groups


def test_after_a_failure_all_that_names_the_id_is_committed_the_slow_way_in_order(
    kafka: Kafka, bench: Bench
) -> None:
    kafka.lets_go.clear()
    kafka.failures.append(fenced())
    begun = [bench.begin() for _ in range(10)]
    begun[0].commit()
    wait_until(lambda: kafka.begun_at)
    for tx in begun[1:7]:
        tx.commit()
    kafka.lets_go.set()
    wait_until(lambda: len(kafka.clients) == 2)
    for tx in begun[7:]:
        assert tx.commit(wait=True) is False
    assert bench.commits() == [tx.transaction_id for tx in begun]
    # The first was in a transaction of which the outcome is not known: nothing is said of it.
    assert bench.given_up() == [tx.transaction_id for tx in begun[1:]]
    assert kafka.delivered == []


def test_after_a_failure_a_new_client_with_a_new_id_takes_over(kafka: Kafka, bench: Bench) -> None:
    kafka.failures.append(fenced())
    before = bench.fast_id()
    assert bench.begin().commit(wait=True) is False
    wait_until(bench.fast_id)
    assert bench.begin().commit(wait=True) is True
    first, second = kafka.clients
    assert before == first.fast_id != second.fast_id == bench.fast_id()
    assert (first.inits, second.inits) == (1, 1)
    assert first.is_dropped and not second.is_dropped


def test_a_half_of_an_earlier_id_is_never_committed_fast(kafka: Kafka, bench: Bench) -> None:
    kafka.failures.append(fenced())
    old = bench.begin()
    bench.begin().commit(wait=True)
    wait_until(bench.fast_id)
    assert old.commit(wait=True) is False
    assert kafka.delivered == []


def test_an_id_whose_end_may_have_been_sent_twice_is_used_no_more(
    kafka: Kafka, bench: Bench
) -> None:
    kafka.is_slow = True
    still_open = bench.begin()
    assert bench.begin().commit(wait=True) is True
    wait_until(lambda: len(kafka.clients) == 2)
    assert kafka.clients[0].is_dropped
    assert still_open.commit(wait=True) is False
    assert bench.given_up() == bench.commits() == [still_open.transaction_id]


def test_the_pause_grows_with_each_failure_in_a_row(
    kafka: Kafka, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.failures.extend([fenced(), fenced()])
    assert bench.begin().commit(wait=True) is False
    wait_until(bench.fast_id)
    failed_at = time.monotonic()
    assert bench.begin().commit(wait=True) is False
    assert bench.begin().commit(wait=True) is False  # not in a row of waiting, it names no id
    wait_until(bench.fast_id)
    assert time.monotonic() - failed_at > 0.9
    assert bench.begin().commit(wait=True) is True
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1


def test_a_topic_that_refuses_a_message_is_slow_for_a_while_and_others_are_fast(
    kafka: Kafka, bench: Bench
) -> None:
    error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    kafka.failures.extend([GroupFailed(error, frozenset({"small"}))])
    assert bench.begin("small").commit(wait=True) is False
    wait_until(bench.fast_id)
    assert bench.begin("small").commit(wait=True) is False
    assert bench.begin().commit(wait=True) is True
    assert len(kafka.clients) == 2


def test_without_the_right_to_an_id_all_is_slow_and_the_log_says_what_to_grant(
    kafka: Kafka, make: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    kafka.refuses_ids = True
    bench = make()
    assert bench.begin().commit(wait=True) is False
    wait_until(lambda: len(kafka.clients) >= 3 and kafka.clients[2].is_dropped)
    [told] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Write on transactional ids that begin with tx.fast:orders:" in told.getMessage()
    refused = kafka.clients[:3]
    assert len({client.fast_id for client in refused}) == 3
    assert all(client.is_dropped for client in refused)


def test_a_half_whose_local_transaction_takes_long_gives_the_fast_lane_up(
    kafka: Kafka, make: Callable[..., Bench]
) -> None:
    bench = make(immunity=1.0)
    slow, quick = bench.begin(), bench.begin(seconds=100)
    wait_until(bench.given_up)
    assert bench.ends() == [(slow.transaction_id, "UNKNOWN", False)]
    assert slow.commit(wait=True) is False
    assert bench.commits() == bench.given_up() == [slow.transaction_id]
    assert quick.commit(wait=True) is True


def test_a_commit_that_is_late_is_slow_though_nobody_has_looked_yet(
    kafka: Kafka, make: Callable[..., Bench]
) -> None:
    bench = make(immunity=1.0)
    kafka.lets_go.clear()
    busy = bench.begin(seconds=100)
    busy.commit()
    wait_until(lambda: kafka.begun_at)
    in_line, late = bench.begin(), bench.begin()
    in_line.commit()
    time.sleep(0.9)
    assert late.commit(wait=True) is False
    kafka.lets_go.set()
    wait_until(lambda: len(bench.commits()) == 2)
    assert sorted(bench.given_up()) == sorted([in_line.transaction_id, late.transaction_id])
    assert kafka.delivered == [busy.transaction_id]


def test_the_close_writes_what_waits(kafka: Kafka, make: Callable[..., Bench]) -> None:
    bench = make(linger=float(PATIENCE_SECONDS))
    begun = [bench.begin() for _ in range(3)]
    for tx in begun:
        tx.commit()
    bench.close()
    assert kafka.delivered == [tx.transaction_id for tx in begun]
    assert kafka.clients[0].is_dropped


def test_what_a_close_can_not_wait_for_goes_the_slow_way(kafka: Kafka, bench: Bench) -> None:
    kafka.lets_go.clear()
    under_way, waits = bench.begin(), bench.begin()
    under_way.commit()
    wait_until(lambda: kafka.begun_at)
    waits.commit()
    bench.lane.close(0.1)
    wait_until(bench.commits)
    assert bench.commits() == [waits.transaction_id]
    kafka.lets_go.set()
    wait_until(lambda: kafka.clients[0].is_dropped)
    assert kafka.delivered == [under_way.transaction_id]


def test_a_commit_after_the_close_of_all_says_so(kafka: Kafka, bench: Bench) -> None:
    tx = bench.begin()
    bench.close()
    with pytest.raises(CommitNotAcknowledged, match=r"the producer is closed.*do not send"):
        tx.commit(wait=True)


def test_a_bug_in_the_lane_costs_no_commit(
    kafka: Kafka, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("resolver.producer.fast.lane.group_records", breaks)
    assert bench.begin().commit(wait=True) is False
    assert bench.fast_id() is None
    assert bench.begin().commit(wait=True) is False


def test_two_threads_wait_for_one_commit(kafka: Kafka, bench: Bench) -> None:
    kafka.lets_go.clear()
    tx = bench.begin()
    answers: list[bool] = []
    waiting = [
        threading.Thread(target=lambda: answers.append(tx.commit(wait=True))) for _ in range(2)
    ]
    for thread in waiting:
        thread.start()
    time.sleep(0.1)
    kafka.lets_go.set()
    for thread in waiting:
        thread.join(PATIENCE_SECONDS)
    assert answers == [True, True]
    assert kafka.delivered == [tx.transaction_id]


def test_a_commit_that_nobody_waited_for_can_not_be_waited_for_later(bench: Bench) -> None:
    tx = bench.begin()
    tx.commit()
    with pytest.raises(SendError, match="committed already, and without wait"):
        tx.commit(wait=True)


def test_in_a_fork_nothing_is_committed_fast_and_a_wait_says_so(kafka: Kafka, bench: Bench) -> None:
    tx = bench.begin()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            tx.commit(wait=True)
            os.write(writing, b"committed")
        except CommitNotAcknowledged:
            os.write(writing, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"refused"
    assert tx.commit(wait=True) is True
    assert kafka.delivered == [tx.transaction_id]


def test_threads_lose_no_commit_over_failures(kafka: Kafka, bench: Bench) -> None:
    kafka.failures.extend([None, fenced(), None, None, fenced()])
    begun: list[Transaction] = []

    def work() -> None:
        for _ in range(50):
            tx = bench.begin()
            begun.append(tx)
            tx.commit()
            time.sleep(0.002)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    bench.close()
    ended = sorted([*kafka.delivered, *bench.commits()])
    assert ended == sorted(tx.transaction_id for tx in begun)
    assert not kafka.failures
