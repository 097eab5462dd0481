"""A real topic that takes no records: its messages wait, all others are delivered."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker import Broker, Security
from resolver.doctor.doctor import examine
from resolver.errors import Replaced, ResolverError
from resolver.resolve.delivery import Delivery
from resolver.spark.points import Point
from resolver.up.home import Home
from tests.support.pages import section
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import held_up
from tests.support.second_node import NODE, SecondNode, have_kafkas_topics_made

from .cut_off import CutOff
from .delivery_points import failing_once, once_at
from .parking_site import FIRST, ParkingSite

Deliveries = Callable[[], Delivery]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, SecondNode]]:
    """Return a broker, and a second node that leads the topics to be parked."""
    folder: Path = tmp_path_factory.mktemp("nodes")
    soon = Security({"broker.session.timeout.ms": 6_000})  # a node that comes again is taken then
    with Broker(folder / "first", security=soon) as first:
        have_kafkas_topics_made(first)
        second = SecondNode(first, folder / "second")
        second.start()
        try:
            yield first, second
        finally:
            second.stop()


@pytest.fixture
def site(nodes: tuple[Broker, SecondNode], prefix: str) -> Iterator[ParkingSite]:
    first, second = nodes
    yield ParkingSite(first, second, prefix)
    second.go_on()
    second.start()


@pytest.fixture
def deliveries(site: ParkingSite) -> Iterator[Deliveries]:
    """Return what makes and starts deliveries of one checkpoint; they are closed at the end."""
    made: list[Delivery] = []

    def make() -> Delivery:
        made.append(Delivery(site.settings, "checkpoint"))
        made[-1].start(is_new=len(made) == 1)
        return made[-1]

    yield make
    for delivery in made:
        delivery.close()


def released(delivery: Delivery) -> None:
    """Let a delivery look after what is parked until nothing is."""

    def is_empty() -> bool:
        delivery.release()
        return not delivery.has_parked

    wait_until(is_empty)


@pytest.mark.gate
def test_a_topic_without_a_leader_lets_all_others_pass(
    site: ParkingSite,
    deliveries: Deliveries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cluster tells which topic it is, before delivery stops waiting for acknowledgements.

    The lane is read in several chunks, some of which have releases alone.
    """
    monkeypatch.setattr("resolver.resolve.delivery.lane._CHUNK_RECORDS", 2)
    # A minute: even a busy machine acknowledges a record within it.
    monkeypatch.setattr("resolver.resolve.delivery.attempts._ANSWER_SECONDS", 60.0)
    monkeypatch.setattr("resolver.resolve.delivery.batch_producer._NEXT_SHARE", 1.0)
    missed = AssertionError("delivery stopped waiting for acknowledgements")
    monkeypatch.setattr(
        "resolver.resolve.delivery.produce_errors.ProduceFailures.stall", lambda *_: missed
    )
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well))
    released(delivery)  # a slow start of the node parks too
    site.await_visible()
    site.node.stop()
    delivery.deliver(1, site.batch(site.sick, site.well, site.sick))
    delivery.deliver(2, site.batch(site.well, site.sick))
    assert site.delivered(site.well) == [1, 3, 5]
    assert site.outcomes() == [0, 1, 3, 5]
    site.node.start()
    delivery.deliver(3, site.batch(site.sick, site.well))  # behind what is parked
    released(delivery)
    delivery.deliver(4, site.batch(site.sick, site.well))
    assert not delivery.has_parked
    assert site.delivered(site.sick) == [0, 2, 4, 6, 7, 9]
    assert site.delivered(site.well) == [1, 3, 5, 8, 10]
    assert site.outcomes() == list(range(11))


def test_while_a_leader_is_silent_others_pass_and_a_replaced_resolver_writes_nothing(
    site: ParkingSite, deliveries: Deliveries, caplog: pytest.LogCaptureFixture
) -> None:
    """The transaction of the first attempt can't end: another transactional id is used."""
    first = deliveries()
    first.deliver(0, site.batch(site.sick, site.well))
    site.await_visible()
    site.node.pause()
    first.deliver(1, site.batch(site.sick, site.well))
    assert site.delivered(site.well) == [1, 3]
    assert f"going on as {site.names.resolver}-1" in caplog.text
    batch = site.batch(site.sick, site.well)
    second = deliveries()
    second.deliver(2, batch)
    with pytest.raises(Replaced):
        first.deliver(2, batch)
    site.node.go_on()
    with pytest.raises(Replaced):
        released(first)
    released(second)
    second.deliver(3, site.batch(site.sick))
    assert site.delivered(site.sick) == [0, 2, 4, 6]
    assert site.delivered(site.well) == [1, 3, 5]
    assert site.outcomes() == list(range(7))


def test_what_is_parked_is_known_after_each_start(
    site: ParkingSite, deliveries: Deliveries, caplog: pytest.LogCaptureFixture
) -> None:
    """One instance is closed, and one has just gone. At last an operator deletes what is over."""
    site.node.stop()
    closed = deliveries()
    closed.deliver(0, site.batch(site.sick, site.well))
    closed.close()
    gone = deliveries()
    assert gone.has_parked
    gone.deliver(1, site.batch(site.sick, site.well))
    last = deliveries()
    site.node.start()
    last.deliver(2, site.batch(site.sick, site.well))
    released(last)
    assert not deliveries().has_parked
    assert [message.key() for message in site.parked()] == [b"key"] * 3 + [None]
    site.delete_before(site.names.parked, site.lane())
    assert site.values(site.names.parked) == []
    assert not deliveries().has_parked
    assert "has lost records" not in caplog.text
    assert site.delivered(site.sick) == [0, 2, 4]
    assert site.delivered(site.well) == [1, 3, 5]
    assert site.outcomes() == list(range(6))


def test_a_release_of_which_the_answer_is_lost_is_not_repeated(
    site: ParkingSite, deliveries: Deliveries, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "resolver.resolve.delivery")
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well, site.sick))
    site.node.start()
    with failing_once(Point.COMMITTED) as lost:
        released(delivery)
    assert lost
    assert site.delivered(site.sick) == [0, 2]
    assert site.outcomes() == [0, 1, 2]


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.INVALID_TXN_STATE])
def test_a_release_that_fails_is_postponed(
    site: ParkingSite, deliveries: Deliveries, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """No batch waits for another attempt. The log tells if somebody else ended the transaction."""
    caplog.set_level(logging.DEBUG, "resolver.resolve.delivery")
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well))
    site.node.start()
    with failing_once(Point.OPEN, code) as failed:

        def has_failed() -> bool:
            delivery.release()
            return bool(failed)

        wait_until(has_failed)
    assert f"what waits for topic {site.sick} is written later" in caplog.text
    was_ended = f"parked messages to {site.sick}: the transaction was ended" in caplog.text
    assert was_ended == (code == KafkaError.INVALID_TXN_STATE)
    assert "trying again" not in caplog.text
    assert delivery.has_parked
    delivery.deliver(1, site.batch(site.well, site.sick))
    assert site.delivered(site.well) == [1, 2]
    released(delivery)
    assert site.delivered(site.sick) == [0, 3]
    assert site.outcomes() == list(range(4))


def test_a_rebuild_decides_again_what_is_parked(site: ParkingSite, deliveries: Deliveries) -> None:
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well))
    delivery.close()
    site.store_halves()
    rebuilt = Delivery(site.settings, "another checkpoint")
    # Some of batch 0 may be visible.
    rebuilt.start(is_new=True, rebuild=True, last_planned=lambda: 0)
    assert not rebuilt.has_parked
    rebuilt.deliver(0, [msgpack.packb([site.commit(0, site.sick, "another")])])
    assert len(site.parked()) == 3  # what was dropped, the release, the new one
    site.node.start()
    released(rebuilt)
    rebuilt.close()
    wait_until(lambda: site.delivered(site.sick) == [0])  # until its transaction has ended
    assert site.outcomes() == [0, 1]


def test_a_rebuild_is_refused_if_only_the_lane_still_has_a_message(
    site: ParkingSite, deliveries: Deliveries
) -> None:
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well))
    delivery.close()
    site.store_halves()
    site.delete_before(site.names.half, 1)
    rebuilt = Delivery(site.settings, "another checkpoint")
    with pytest.raises(ResolverError, match="without --rebuild"):
        rebuilt.start(is_new=True, rebuild=True)
    rebuilt.close()
    site.node.start()
    released(deliveries())
    wait_until(lambda: site.delivered(site.sick) == [0])  # until its transaction has ended
    assert site.outcomes() == [0, 1]


def test_parked_messages_that_were_deleted_are_told_of(
    site: ParkingSite, deliveries: Deliveries, caplog: pytest.LogCaptureFixture
) -> None:
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well, site.sick))
    site.delete_before(site.names.parked, (site.parked()[0].offset() or 0) + 1)
    site.node.start()
    released(delivery)
    assert f"1 messages to {site.sick} were parked, and are not found" in caplog.text
    assert "txresolver audit --topics" in caplog.text
    wait_until(lambda: site.delivered(site.sick) == [2])  # until its transaction has ended


def test_too_few_replicas_in_sync_park_a_topic_too(
    site: ParkingSite, deliveries: Deliveries
) -> None:
    admin = AdminClient({"bootstrap.servers": site.settings.bootstrap_servers})
    both = NewTopic(
        f"both-{site.sick}", 1, replica_assignment=[[FIRST, NODE]],
        config={"min.insync.replicas": "2"},
    )  # fmt: skip
    admin.create_topics([both])[both.topic].result(PATIENCE_SECONDS)
    delivery = deliveries()
    delivery.deliver(0, site.batch(both.topic, site.well))
    site.node.stop()
    delivery.deliver(1, site.batch(both.topic, site.well))
    assert site.delivered(site.well) == [1, 3]
    site.node.start()
    released(delivery)
    assert site.delivered(both.topic) == [0, 2]
    assert site.outcomes() == list(range(4))


def test_a_commit_that_kafka_never_ends_is_ended_by_the_next_or_by_an_operator(
    site: ParkingSite,
    deliveries: Deliveries,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Kafka 4.3.1 writes no marker to a partition that has no leader then (KAFKA-20734).

    If this fails as Kafka has mended it, the page's section can go. The halves are an hour old,
    so that doctor and Kafka's tool do not take the transaction for one that has just begun.
    """
    site.age_ms = 3_600_000
    caplog.set_level(logging.DEBUG, "resolver.resolve.delivery")
    # So that a slow answer of the node that is back neither parks nor takes another id.
    monkeypatch.setattr("resolver.resolve.delivery.attempts._ANSWER_SECONDS", PATIENCE_SECONDS / 4)
    monkeypatch.setattr(
        "resolver.resolve.delivery.current_producer._STUCK_SECONDS", PATIENCE_SECONDS / 4
    )
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick))
    released(delivery)  # a slow start of the node parks
    site.await_visible()
    lose_the_leader_at_a_commit(site, delivery, 1)
    assert site.visible(site.sick) == [0]
    delivery.deliver(2, site.batch(site.sick))
    assert site.delivered(site.sick) == [0, 1, 2]
    lose_the_leader_at_a_commit(site, delivery, 3)
    assert not delivery.has_parked
    about = f"partition {site.sick}:0"
    [named] = [one for one in examine(site.settings, Home(tmp_path), ()) if one.about == about]
    [offset] = re.findall(r"a transaction is open from offset (\d+) on", named.seen)
    (hanging, listed), ended = commands_of_the_page()
    [producer_id] = re.findall(
        rf"^{site.sick}\s+0\s+(\d+)\s.*\s{offset}\s", run(site, hanging), re.MULTILINE
    )
    whose = rf"^{re.escape(site.names.resolver)}\s+\d+\s+{producer_id}\s+CompleteCommit"
    assert re.search(whose, run(site, listed), re.MULTILINE)
    run(site, [offset if part == "4711" else part for part in ended[0]])
    assert site.delivered(site.sick) == [0, 1, 2]
    assert site.outcomes() == [0, 1, 2, 3]


def lose_the_leader_at_a_commit(site: ParkingSite, delivery: Delivery, number: int) -> None:
    """Deliver a message to a partition whose leader is gone before it hears of the commit."""
    with once_at(Point.WRITTEN, site.node.pause) as written:
        delivery.deliver(number, site.batch(site.sick))
    assert written
    site.node.kill()
    asked = ["txresolver", "kafka", "transactions", "describe"]
    asked += ["--transactional-id", site.names.resolver]
    wait_until(lambda: "CompleteCommit" in run(site, asked))
    site.node.start()
    assert held_up(site.options, site.sick) == 1


def commands_of_the_page() -> list[list[list[str]]]:
    """Return the blocks of the page's section, each with its commands."""
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r"```sh\n(.*?)```", section(page, "### A transaction that never ends"), re.DOTALL
    )
    return [[shlex.split(line, comments=True) for line in block.splitlines()] for block in blocks]


def run(site: ParkingSite, command: list[str]) -> str:
    """Return what `txresolver` prints, for the site's topic where the page has its own."""
    _, *arguments = [site.sick if part == "orders.placed" else part for part in command]
    done = subprocess.run(
        [sys.executable, "-m", "resolver", *arguments], check=False, capture_output=True, text=True,
        env={**os.environ, "TXRESOLVER_BOOTSTRAP_SERVERS": site.settings.bootstrap_servers},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> CutOff:
    return CutOff(monkeypatch)


def test_a_leader_that_was_cut_off_brings_no_released_message_back(
    site: ParkingSite, deliveries: Deliveries, cut_off: CutOff
) -> None:
    """It shows the lane as it was before the release."""
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well))
    cut_off.end = site.lane_end()
    site.node.start()
    released(delivery)
    cut_off.producers = 1
    cut_off.consumers = 2  # one looks where the lane begins, and one reads
    after = deliveries()
    assert cut_off.producers < 0
    assert cut_off.has_read
    assert not after.has_parked
    assert site.delivered(site.sick) == [0]


def test_a_leader_that_was_cut_off_hides_no_parked_message(
    site: ParkingSite, deliveries: Deliveries, cut_off: CutOff
) -> None:
    """It shows the first one alone."""
    site.node.stop()
    delivery = deliveries()
    delivery.deliver(0, site.batch(site.sick, site.well))
    cut_off.end = site.lane_end()
    delivery.deliver(1, site.batch(site.sick))
    site.node.start()
    cut_off.consumers = 2
    released(delivery)
    assert cut_off.has_read
    delivery.deliver(2, site.batch(site.sick))
    assert site.delivered(site.sick) == [0, 2, 3]
