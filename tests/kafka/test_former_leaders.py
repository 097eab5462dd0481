"""A leader that was cut off from the other brokers still answers planning: it is not believed."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo  # type: ignore[attr-defined]

from resolver.broker import Broker
from resolver.kafka.clients import admin_client
from resolver.kafka.end_offsets import EndOffsets
from resolver.kafka.partition_offsets import QueueOffsets
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .queues import SetClock, write

#: Plans in a row, none of which may believe a former leader.
PLANS = 40


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
            self.leader.asked_by_plans += {place.partition for place in asked} == {0, 1}
            isolation = options.get("isolation_level", IsolationLevel.READ_UNCOMMITTED)
            return {
                place: self.leader.changed(answer, isolation) if place.partition == 1 else answer
                for place, answer in super().list_offsets(asked, **options).items()
            }

    monkeypatch.setattr("resolver.kafka.background_client.AdminClient", Client)
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
            write(self._settings, topic, *queues)

    def up_to(self, first: int, second: int) -> QueueOffsets:
        """Return offsets of both queues, the same in both topics."""
        return {topic: {"0": first, "1": second} for topic in self._topics}

    def next(self, start: QueueOffsets, seconds: float = 1.0) -> QueueOffsets:
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
    # A topic that was made again keeps a lesser epoch.
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
    monkeypatch.setattr("resolver.kafka.leaders._FORMER_SECONDS", float("inf"))
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


@pytest.mark.parametrize(("seconds", "waits"), [(7.0, False), (9.0, True)])
def test_after_a_long_batch_a_plan_waits_for_a_later_leader(
    plans: Plans,
    leaders: list[Leader],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    waits: bool,
) -> None:
    """While a batch is held up by a leader that died, another one is elected.

    A wait after each batch of a backlog would cost some of its rate.
    """
    leaders[0].lacks = 1
    wait_until(lambda: plans.next(plans.nothing) == plans.up_to(1, 0))
    leaders.append(Leader(epoch=6))
    monkeypatch.setattr("resolver.kafka.end_offsets._LEADERS_SECONDS", PATIENCE_SECONDS)
    assert (plans.next(plans.nothing, seconds) == plans.all) is waits


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
