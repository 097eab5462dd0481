"""A queue whose half or op partition does not answer is left out, and the others go on."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo  # type: ignore[attr-defined]

from resolver.broker import Broker, Security
from resolver.errors import RecordsAway, ResolverError, TxResolverError
from resolver.kafka.clients import admin_client, client_config
from resolver.kafka.end_offsets import EndOffsets, Offsets
from resolver.kafka.topic_specs import output_topics, queue_topics
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.resolve.batch_limits import RangeRow
from resolver.resolve.delivery import Delivery
from resolver.resolve.fences import FenceTimer
from resolver.resolve.reader import Range, RangeReader
from resolver.resolve.source import Ranges
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.second_node import FIRST, NODE, SecondNode, have_kafkas_topics_made

NOTHING = Range(0, 0)
#: Each plan that waited for a lost queue would have a client of its own ask for the queue.
PLANS = 40


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, SecondNode]]:
    """Two nodes; Kafka misses one that was killed or halted after 6 s."""
    home = tmp_path_factory.mktemp("nodes")
    soon = Security({"broker.session.timeout.ms": 6_000})
    with Broker(home / "first", security=soon) as first:
        have_kafkas_topics_made(first)
        second = SecondNode(first, home / "second")
        try:
            yield first, second
        finally:
            second.stop()


@pytest.fixture
def second(nodes: tuple[Broker, SecondNode]) -> SecondNode:
    """The second node, running."""
    _, second = nodes
    second.stop()
    second.start()
    return second


@pytest.fixture
def settings(nodes: tuple[Broker, SecondNode], prefix: str) -> Settings:
    return Settings(bootstrap_servers=nodes[0].bootstrap, topic_prefix=prefix, queues=2)


def go_away(second: SecondNode, how: str) -> Callable[[], None]:
    """Let a node go away; return what brings it back."""
    if how == "halted":
        second.pause()
        return second.go_on
    if how == "killed":
        second.kill()
    else:
        second.stop()
    return second.start


@pytest.mark.parametrize(
    ("how", "half_on", "op_on"),
    [("stopped", NODE, NODE), ("killed", NODE, FIRST), ("halted", FIRST, NODE)],
)
def test_a_queue_that_does_not_answer_is_left_out_until_it_does(
    second: SecondNode,
    settings: Settings,
    how: str,
    half_on: int,
    op_on: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names(settings.topic_prefix)
    second.make_topic(names.half, (FIRST, half_on))
    second.make_topic(names.op, (FIRST, op_on))
    asked = _requests(monkeypatch)
    source = Ranges(settings)
    start = source.initialOffset()
    _write(settings, names.half, 0, 1)
    _write(settings, names.op, 0, 1)
    # A busy machine's first plans may leave a queue out.
    expected = [(0, 0, 1, 0, 1), (1, 0, 1, 0, 1)]
    end = wait_until(lambda: _end_of(source, start, expected))
    caplog.clear()

    come_back = go_away(second, how)
    try:
        _write(settings, names.half, 0)
        _write(settings, names.op, 0)
        end = _planned(source, end, names.op, "0", 2)
        asked.clear()
        for _ in range(PLANS):
            rows, end = source.read(end)
            assert list(rows) == []
        assert asked
        of_plans, of_new_clients = asked.count({0, 1}), asked.count({1}) // len((half_on, op_on))
        assert (of_plans, of_new_clients < PLANS) == (0, True)
        assert {name: queues["1"] for name, queues in end.items()} == dict.fromkeys(end, 1)
        _write(settings, names.half, 0)
        rows, end = source.read(end)
        assert list(rows) == [(0, 2, 3, 2, 2)]
        wait_until(lambda: source.read(end) and "queue 1 is left out" in caplog.text)
    finally:
        come_back()
    _write(settings, names.half, 1)
    _write(settings, names.op, 1)
    wait_until(lambda: source.read(end)[1][names.op]["1"] == 2)
    rows, end = source.read(end)
    assert list(rows) == [(1, 1, 2, 1, 2)]
    assert end[names.half] == {"0": 3, "1": 2}
    assert caplog.text.count("queue 1 is left out") == caplog.text.count("queue 1 is back after")
    assert "queue 0" not in caplog.text


@dataclass
class Leader:
    """The leader of queue 1's partitions: it may lack the last records, or refuse to answer.

    The last records that it has may be those of an open transaction: it `lacks_stable` ones.
    """

    epoch: int = 5
    lacks: int = 0
    lacks_stable: int = 0
    error: int | None = None
    asked: int = 0
    asked_by_plans: int = 0

    def changed(self, answer: Future[Any], isolation: IsolationLevel) -> Future[Any]:
        """Return its answer, made of Kafka's."""
        lacks = self.lacks
        if isolation is IsolationLevel.READ_COMMITTED:
            lacks += self.lacks_stable
        changed: Future[Any] = Future()

        def change(answered: Future[Any]) -> None:
            self.asked += 1
            error = answered.exception()  # as on a busy machine: whoever asks has to bear it
            if error is None and self.error is not None:
                error = KafkaException(KafkaError(self.error))
            if error is None:
                offset = answered.result().offset - lacks
                changed.set_result(ListOffsetsResultInfo(offset, -1, self.epoch))
            else:
                changed.set_exception(error)

        answer.add_done_callback(change)
        return changed


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> list[Leader]:
    """Leaders of queue 1: a client that is made asks the last of them, and stays with it."""
    leaders = [Leader()]

    class Client(AdminClient):
        def __init__(self, *options: Any) -> None:
            super().__init__(*options)
            self.leader = leaders[-1]

        # The type stubs of AdminClient contradict those of its own base.
        def list_offsets(self, asked: Any, **options: Any) -> Any:  # type: ignore[override]
            self.leader.asked_by_plans += len(asked) > 1
            isolation = options.get("isolation_level", IsolationLevel.READ_UNCOMMITTED)
            return {
                place: self.leader.changed(answer, isolation) if place.partition == 1 else answer
                for place, answer in super().list_offsets(asked, **options).items()
            }

    monkeypatch.setattr("resolver.kafka.end_offsets.AdminClient", Client)
    return leaders


class Plans:
    """Plans of two queues with a record in each partition, by a clock that is set."""

    def __init__(self, settings: Settings) -> None:
        names, self._clock = Names(settings.topic_prefix), SetClock()
        self._settings, self._topics = settings, (names.half, names.op)
        ensure_topics(admin_client(settings), settings)
        self.write(0, 1)
        self.ends = EndOffsets(settings, self._clock)
        self.nothing, self.all = self.up_to(0, 0), self.up_to(1, 1)

    def write(self, *queues: int) -> None:
        """Write a record into each partition of these queues."""
        for topic in self._topics:
            _write(self._settings, topic, *queues)

    def up_to(self, first: int, second: int) -> Offsets:
        """Return offsets of both queues, the same in both topics."""
        return {topic: {"0": first, "1": second} for topic in self._topics}

    def next(self, start: Offsets, seconds: float = 1.0) -> Offsets:
        """Plan after some seconds; a queue that a busy machine left out is asked after its time."""
        self._clock.now += seconds
        return self.ends.after(start)


@pytest.fixture
def plans(
    kafka: Broker, prefix: str, leaders: list[Leader], monkeypatch: pytest.MonkeyPatch
) -> Plans:
    """Plans that leave no queue out because the machine is busy."""
    monkeypatch.setattr("resolver.kafka.end_offsets._ANSWER_SECONDS", PATIENCE_SECONDS)
    return Plans(Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix, queues=2))


def test_a_leader_that_was_replaced_is_not_believed(plans: Plans, leaders: list[Leader]) -> None:
    """As one that was cut off from the others and still answers, with an older epoch."""
    wait_until(lambda: plans.next(plans.nothing) == plans.all)
    leaders[0].epoch, leaders[0].lacks = 4, 1
    assert [plans.next(plans.all, 0.0) for _ in range(PLANS)] == [plans.all] * PLANS
    # A topic that was made anew keeps a lesser epoch.
    wait_until(lambda: plans.next(plans.all, 130.0) == plans.up_to(1, 0))


@pytest.mark.parametrize("lacks", ["lacks", "lacks_stable"])
def test_after_a_start_an_end_before_what_was_read_is_not_believed(
    plans: Plans,
    leaders: list[Leader],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    lacks: str,
) -> None:
    """As of a leader that was cut off: the partition would seem to have lost records."""
    monkeypatch.setattr("resolver.kafka.end_offsets._FORMER_SECONDS", float("inf"))
    setattr(leaders[0], lacks, 1)
    assert [plans.next(plans.all) for _ in range(PLANS)] == [plans.all] * PLANS
    assert "ends at 0, and was read up to 1: its leader may have been cut off" in caplog.text
    leaders.append(Leader(epoch=6))
    plans.write(1)
    # Each plan is later than the time of a new client.
    wait_until(lambda: plans.next(plans.all, 2 * PATIENCE_SECONDS) == plans.up_to(1, 2))
    assert "another leader of partition 1" in caplog.text


def test_records_that_are_lost_at_a_start_are_believed_in_the_end(
    plans: Plans, leaders: list[Leader]
) -> None:
    leaders[0].lacks = 1
    assert plans.next(plans.all) == plans.all
    leaders.append(Leader(lacks=1))
    wait_until(lambda: plans.next(plans.all, 2 * PATIENCE_SECONDS) == plans.up_to(1, 0))
    assert leaders[1].asked  # by a new client


def test_a_new_client_finds_a_later_leader(
    plans: Plans, leaders: list[Leader], caplog: pytest.LogCaptureFixture
) -> None:
    """The client in use asks a leader that was cut off, which knows no new records."""
    leaders[0].lacks = 1
    wait_until(lambda: plans.next(plans.nothing) == plans.up_to(1, 0))
    caplog.clear()
    leaders.append(Leader(epoch=6))
    wait_until(lambda: plans.next(plans.nothing) == plans.all)
    assert leaders[1].asked_by_plans
    assert "left out" not in caplog.text


@pytest.mark.parametrize(
    ("error", "left_out"),
    [
        pytest.param(None, [], id="cut off"),
        pytest.param(None, ["0"], id="cut off, and a queue left out"),
        pytest.param(KafkaError.TOPIC_AUTHORIZATION_FAILED, [], id="refuses"),
    ],
)
def test_a_new_client_that_asks_a_leader_of_no_use_is_not_taken(
    plans: Plans, leaders: list[Leader], error: int | None, left_out: list[str]
) -> None:
    wait_until(lambda: plans.next(plans.nothing) == plans.all)
    found = Leader(epoch=4, lacks=1, error=error)
    leaders.append(found)
    plans.ends.leave_out(left_out)
    wait_until(lambda: plans.next(plans.all) and found.asked >= 4)
    for _ in range(PLANS):
        plans.next(plans.all)
    assert not found.asked_by_plans


def test_plans_further_apart_than_a_new_client_has_time_take_a_queue_back(
    second: SecondNode, settings: Settings
) -> None:
    names, clock = Names(settings.topic_prefix), SetClock()
    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, NODE))
    start = _start(settings)
    _write(settings, names.half, 0, 1)
    ends = EndOffsets(settings, clock)
    _wait_for(ends, start, clock, names.half, "01")

    ends.leave_out(["1"])
    assert ends.after(start)[names.half]["1"] == 0
    _wait_for(ends, start, clock, names.half, "1")


def test_an_old_answer_brings_no_queue_back(
    second: SecondNode, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise its time would begin again and again, and nothing would warn."""
    names, clock = Names(settings.topic_prefix), SetClock()
    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, NODE))
    start = _start(settings)
    _write(settings, names.half, 0, 1)
    ends = EndOffsets(settings, clock)
    _wait_for(ends, start, clock, names.half, "01")
    ends.leave_out(["0"], seconds=1e6)  # so that clients go on asking
    ends.leave_out(["1"])
    _wait_for(ends, start, clock, names.half, "1")
    caplog.clear()  # on a busy machine a queue was left out before, and warned of
    second.pause()
    try:
        wait_until(lambda: ends.after(start)[names.half]["1"] == 0)
        clock.now += 1.0
        ends.after(start)
        assert "queue 1 is left out" in caplog.text
    finally:
        second.go_on()
    assert "queue 0" not in caplog.text


def test_a_queue_is_left_out_for_as_long_as_is_said(second: SecondNode, settings: Settings) -> None:
    names, clock = Names(settings.topic_prefix), SetClock()
    second.make_topic(names.half, (FIRST, FIRST))
    second.make_topic(names.op, (FIRST, FIRST))
    start = _start(settings)
    _write(settings, names.half, 0, 1)
    ends = EndOffsets(settings, clock)
    _wait_for(ends, start, clock, names.half, "01")
    ends.leave_out(["0", "1"], seconds=60.0)
    for _ in range(2):  # the second plan comes after the answers, for which the first one waits
        clock.now += 29.0
        assert ends.after(start) == start
    _wait_for(ends, start, clock, names.half, "01")


def test_a_start_without_a_leader_leaves_its_queue_out(
    second: SecondNode, settings: Settings
) -> None:
    names = Names(settings.topic_prefix)
    _make_topics(second, settings, (FIRST, NODE), (FIRST, FIRST))
    start = Ranges(settings).initialOffset()
    _write(settings, names.half, 0, 1)
    second.stop()
    ensured = {topic.name: topic.note for topic in ensure_topics(admin_client(settings), settings)}
    assert ensured[names.half] == "a partition has no leader"
    ranges = Ranges(settings)
    # A plan leaves out a queue for which a busy machine is slow to answer. The next one asks again.
    wait_until(lambda: list(ranges.read(start)[0]) == [(0, 0, 1, 0, 0)])
    with pytest.raises(ResolverError, match=f"all partitions of {names.half} begin or end"):
        Ranges(settings).initialOffset()


def test_a_start_without_a_leader_of_an_op_partition_takes_over_and_fences_the_others(
    second: SecondNode, settings: Settings
) -> None:
    names, admin = Names(settings.topic_prefix), admin_client(settings)
    _make_topics(second, settings, (FIRST, FIRST), (FIRST, NODE))
    second.stop()
    ensure_topics(admin, settings)
    delivery = Delivery(settings, "checkpoint")
    delivery.start(is_new=True)
    failures: list[TxResolverError] = []
    timer = FenceTimer(settings, delivery, "secret", failures.append)
    for queue in range(settings.queues):
        timer.set(queue, 0)
    timer.start()
    place = TopicPartition(names.op, 0)
    consumer = Consumer({**client_config(settings), "group.id": "reader"})
    wait_until(lambda: consumer.get_watermark_offsets(place, timeout=10)[1] > 0)
    consumer.close()
    timer.stop()
    delivery.close()
    assert failures == []


def test_a_partition_that_is_lost_when_its_records_are_sampled_ends_no_plan(
    second: SecondNode,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a batch that may be large, planning reads some records."""
    pid, names = second.pid, Names(settings.topic_prefix)

    class Halting(EndOffsets):
        """Its last answer is older than the trouble."""

        def after(self, start: Offsets) -> Offsets:
            os.kill(pid, signal.SIGCONT)
            ends = super().after(start)
            if ends[names.half]["1"] > 0:
                os.kill(pid, signal.SIGSTOP)
            return ends

    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, FIRST))
    monkeypatch.setattr("resolver.resolve.source.EndOffsets", Halting)
    source = Ranges(replace(settings, max_bytes_per_trigger=1 << 20))
    start = source.initialOffset()
    _write(settings, names.half, 0, 1)
    try:
        # A busy machine's first plans may leave the queue out before its records are asked for.
        wait_until(lambda: source.read(start) and "without queue 1 for 5 s" in caplog.text)
        assert list(source.read(start)[0]) == [(0, 0, 1, 0, 0)]
        wait_until(lambda: source.read(start) and "queue 1 for 10 s" in caplog.text)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_leader_that_is_lost_before_its_records_are_read_is_waited_for(
    second: SecondNode, settings: Settings
) -> None:
    names = Names(settings.topic_prefix)
    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, FIRST))
    _write(settings, names.half, 0, 1)
    with closing(RangeReader(settings, patience_seconds=5.0)) as records:
        second.stop()
        with pytest.raises(RecordsAway, match=f"partition 1 of {names.half}") as away:
            records.read(1, Range(0, 1), NOTHING)
        assert away.value.queue == 1
        assert len(records.read(0, Range(0, 1), NOTHING)[0]) == 1
        second.start()
        assert len(records.read(1, Range(0, 1), NOTHING)[0]) == 1


def _make_topics(
    second: SecondNode, settings: Settings, half_on: tuple[int, int], op_on: tuple[int, int]
) -> None:
    """Make all topics as the protocol needs them; those for output are the first node's."""
    half, op = queue_topics(settings)
    second.make_topic(half.name, half_on, half.config)
    second.make_topic(op.name, op_on, op.config)
    like = {**half.config, **op.config}
    for spec in output_topics(settings, [], like, like):
        second.make_topic(spec.name, [FIRST] * spec.partitions, spec.config)


class SetClock:
    """A monotonic clock in seconds that moves when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _start(settings: Settings) -> Offsets:
    return Ranges(settings).initialOffset()


def _wait_for(ends: EndOffsets, start: Offsets, clock: SetClock, topic: str, queues: str) -> None:
    """Plan, a minute apart by the clock, until the first record of these queues is planned."""

    def are_back() -> bool:
        clock.now += 60.0
        planned = ends.after(start)[topic]
        return all(planned[queue] == 1 for queue in queues)

    wait_until(are_back)


def _requests(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Return the list of the requests for end offsets, as their queues; it grows."""
    requests: list[set[int]] = []

    class Listing(AdminClient):
        # The type stubs contradict each other here too.
        def list_offsets(self, asked: Any, **options: Any) -> Any:  # type: ignore[override]
            requests.append({at.partition for at in asked})
            return super().list_offsets(asked, **options)

    monkeypatch.setattr("resolver.kafka.end_offsets.AdminClient", Listing)
    return requests


def _end_of(source: Ranges, start: Offsets, expected: list[RangeRow]) -> Offsets | None:
    """Plan once; return the plan's end, or None if it has other rows."""
    rows, end = source.read(start)
    return end if list(rows) == expected else None


def _planned(source: Ranges, start: Offsets, topic: str, queue: str, end: int) -> Offsets:
    """Plan until a queue is planned up to an offset: the first plan finds out who is away."""
    reached = start

    def is_planned() -> bool:
        nonlocal reached
        _, reached = source.read(reached)
        return reached[topic][queue] == end

    wait_until(is_planned)
    return reached


def _write(settings: Settings, topic: str, *queues: int) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for queue in queues:
        producer.produce(topic, b"record", partition=queue, on_delivery=_stored)
    assert producer.flush(PATIENCE_SECONDS) == 0


def _stored(error: object, _message: object) -> None:
    assert error is None, error


def test_a_fence_that_can_not_be_stored_holds_up_no_others(
    nodes: tuple[Broker, SecondNode],
    second: SecondNode,
    settings: Settings,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The marker and what else delivery needs are on the first node, under another prefix."""
    names = Names(settings.topic_prefix)
    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, NODE))
    failures: list[TxResolverError] = []
    whole = replace(settings, topic_prefix=f"{prefix}of.")
    ensure_topics(admin_client(whole), whole)
    delivery = Delivery(whole, "checkpoint")
    delivery.start(is_new=True)
    timer = FenceTimer(
        replace(settings, fence_interval_ms=100), delivery, "secret", failures.append
    )
    timer.start()
    try:
        second.stop()
        timer.set(0, 0)
        timer.set(1, 0)
        with caplog.at_level(logging.WARNING, "resolver"):
            wait_until(lambda: caplog.text.count("fence of queue 1 was not stored") >= 2)
        assert _longest_pause(settings, names.op) < 5.0  # half of a fence's time-out
        second.start()
        wait_until(lambda: _end(settings, names.op, 1) > 0)
    finally:
        timer.stop()
        delivery.close()
    assert not failures and "fence of queue 0" not in caplog.text


def _end(settings: Settings, topic: str, queue: int) -> int:
    """Return a partition's end offset; 0 while a leader that has just started does not tell."""
    with closing(Consumer(client_config(settings, **{"group.id": "looks"}))) as consumer:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, queue), 30)[1])
        except KafkaException:
            return 0


def _longest_pause(settings: Settings, topic: str) -> float:
    """Return the longest time between records of queue 0, in seconds."""
    with closing(RangeReader(settings)) as records:
        _, fences = records.read(0, NOTHING, Range(0, _end(settings, topic, 0)))
    stored = [fence.stored_at_ms for fence in fences]
    return max(after - before for before, after in pairwise(stored)) / 1_000
