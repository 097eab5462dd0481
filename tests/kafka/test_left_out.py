"""A queue whose half or op partition does not answer is left out, and the others go on."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from resolver.broker import Broker, Security
from resolver.errors import RecordsAway, ResolverError, TxResolverError
from resolver.kafka.clients import admin_client, client_config
from resolver.kafka.end_offsets import EndOffsets
from resolver.kafka.partition_offsets import QueueOffsets
from resolver.kafka.topic_specs import output_topics, queue_topics
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.resolve.batch_limits import RangeRow
from resolver.resolve.delivery import Delivery
from resolver.resolve.fences import FenceTimer
from resolver.resolve.reader import Range, RangeReader
from resolver.resolve.source import Ranges
from resolver.settings import Settings
from tests.support.patience import wait_until
from tests.support.second_node import FIRST, NODE, SecondNode, have_kafkas_topics_made

from .queues import SetClock, write

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
    write(settings, names.half, 0, 1)
    write(settings, names.op, 0, 1)
    # A busy machine's first plans may leave a queue out.
    expected = [(0, 0, 1, 0, 1), (1, 0, 1, 0, 1)]
    end = wait_until(lambda: _end_of(source, start, expected))
    caplog.clear()

    come_back = go_away(second, how)
    try:
        write(settings, names.half, 0)
        write(settings, names.op, 0)
        end = _planned(source, end, names.op, "0", 2)
        asked.clear()
        for _ in range(PLANS):
            rows, end = source.read(end)
            assert list(rows) == []
        assert asked
        of_plans, of_new_clients = asked.count({0, 1}), asked.count({1}) // len((half_on, op_on))
        assert (of_plans, of_new_clients < PLANS) == (0, True)
        assert {name: queues["1"] for name, queues in end.items()} == dict.fromkeys(end, 1)
        write(settings, names.half, 0)
        rows, end = source.read(end)
        assert list(rows) == [(0, 2, 3, 2, 2)]
        wait_until(lambda: source.read(end) and "queue 1 is left out" in caplog.text)
    finally:
        come_back()
    write(settings, names.half, 1)
    write(settings, names.op, 1)
    wait_until(lambda: source.read(end)[1][names.op]["1"] == 2)
    rows, end = source.read(end)
    assert list(rows) == [(1, 1, 2, 1, 2)]
    assert end[names.half] == {"0": 3, "1": 2}
    assert caplog.text.count("queue 1 is left out") == caplog.text.count("queue 1 is back after")
    assert "queue 0" not in caplog.text


def test_plans_further_apart_than_a_new_client_has_time_take_a_queue_back(
    second: SecondNode, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A plan that waits for the next client would not need the answers of the last one.
    monkeypatch.setattr("resolver.kafka.end_offsets._LONG_BATCH_SECONDS", float("inf"))
    names, clock = Names(settings.topic_prefix), SetClock()
    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, NODE))
    start = _start(settings)
    write(settings, names.half, 0, 1)
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
    write(settings, names.half, 0, 1)
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
    write(settings, names.half, 0, 1)
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
    write(settings, names.half, 0, 1)
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


def test_partitions_that_are_lost_when_their_records_are_sampled_end_no_plan(
    second: SecondNode,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a batch that may be large, planning reads some records."""
    pid, names = second.pid, Names(settings.topic_prefix)

    class Halting(EndOffsets):
        """Its last answer is older than the trouble."""

        def after(self, start: QueueOffsets) -> QueueOffsets:
            os.kill(pid, signal.SIGCONT)
            ends = super().after(start)
            if ends[names.half]["1"] > 0 < ends[names.half]["2"]:
                os.kill(pid, signal.SIGSTOP)
            return ends

    second.make_topic(names.half, (FIRST, NODE, NODE))
    second.make_topic(names.op, (FIRST, FIRST, FIRST))
    monkeypatch.setattr("resolver.resolve.source.EndOffsets", Halting)
    source = Ranges(replace(settings, queues=3, max_bytes_per_trigger=1 << 20))
    start = source.initialOffset()
    write(settings, names.half, 0, 1, 2)
    try:
        # A busy machine's first plans may leave the queues out before their records are asked for.
        both = "without queue 1 for 5 s, 2 for 5 s"
        wait_until(lambda: source.read(start) and both in caplog.text)
        assert list(source.read(start)[0]) == [(0, 0, 1, 0, 0)]
        wait_until(lambda: source.read(start) and "for 10 s" in caplog.text)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_leader_that_is_lost_before_its_records_are_read_is_waited_for(
    second: SecondNode, settings: Settings
) -> None:
    names = Names(settings.topic_prefix)
    second.make_topic(names.half, (FIRST, NODE))
    second.make_topic(names.op, (FIRST, FIRST))
    write(settings, names.half, 0, 1)
    with closing(RangeReader(settings, patience_seconds=5.0)) as records:
        second.stop()
        with pytest.raises(RecordsAway, match=f"partition 1 of {names.half}") as away:
            records.read(1, Range(0, 1), NOTHING)
        assert away.value.queues == [1]
        assert len(records.read(0, Range(0, 1), NOTHING)[0]) == 1
        second.start()
        assert len(records.read(1, Range(0, 1), NOTHING)[0]) == 1


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


def _start(settings: Settings) -> QueueOffsets:
    return Ranges(settings).initialOffset()


def _wait_for(
    ends: EndOffsets, start: QueueOffsets, clock: SetClock, topic: str, queues: str
) -> None:
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

    monkeypatch.setattr("resolver.kafka.background_client.AdminClient", Listing)
    return requests


def _end_of(source: Ranges, start: QueueOffsets, expected: list[RangeRow]) -> QueueOffsets | None:
    """Plan once; return the plan's end, or None if it has other rows."""
    rows, end = source.read(start)
    return end if list(rows) == expected else None


def _planned(source: Ranges, start: QueueOffsets, topic: str, queue: str, end: int) -> QueueOffsets:
    """Plan until a queue is planned up to an offset: the first plan finds out who is away."""
    reached = start

    def is_planned() -> bool:
        nonlocal reached
        _, reached = source.read(reached)
        return reached[topic][queue] == end

    wait_until(is_planned)
    return reached


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
