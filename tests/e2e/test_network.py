"""The campaign's proxy before a real Kafka, and late requests that delivery has to stand."""

from __future__ import annotations

import os
import random
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker.guard import Guarded
from resolver.broker.locks import FileLock
from tests.faults.network.aimed import WINDOWS, late_in_bare
from tests.faults.network.bare import BareWorld
from tests.faults.network.control import Control
from tests.faults.network.late import Moment
from tests.faults.network.listeners import PRODUCERS, RESOLVER, fronts_of, proxied_broker
from tests.faults.network.rules import ANSWER, REQUEST, Selection
from tests.faults.world_kind import WorldKind
from tests.support.patience import wait_until
from tests.support.reading import committed_records

ROOT = Path(__file__).parents[2]
SECONDS = 60
#: Late requests. With neither line of docs/design.md, the first and the last double messages. The
#: second loses messages if, besides, the marker goes before the records are acknowledged.
TEARS = [
    ("EndTxn", "behind AddOffsetsToTxn"),
    ("EndTxn", "behind TxnOffsetCommit, records on their way"),
    ("TxnOffsetCommit", "behind TxnOffsetCommit"),
]


class Proxied(NamedTuple):
    """A broker behind a proxy: where each side finds it, where the test does, and the control."""

    resolver: str
    producers: str
    direct: str
    control: Control


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    home: Path = tmp_path_factory.mktemp("proxied")
    log = home / "proxy.log"
    log.touch()
    with proxied_broker(home) as broker:
        fronts = fronts_of(home)
        command = [sys.executable, "-m", "tests.faults.network.proxy"]
        ours = {**os.environ, "PYTHONPATH": str(ROOT)}  # the proxy runs in another folder
        proxy = Guarded([*command, *map(str, fronts.values())], home, log, (), ours)
        wait_until(lambda: "ready" in log.read_text())
        port = int(log.read_text().partition("control=")[2].split()[0])
        sides = [fronts[name].servers for name in (RESOLVER, PRODUCERS)]
        yield Proxied(sides[0], sides[1], broker.bootstrap, Control(port))
        proxy.stop(0)


@pytest.fixture
def topic(proxied: Proxied) -> str:
    name = f"t{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": proxied.direct})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)
    return name


@pytest.mark.parametrize(("side", "sent"), [(REQUEST, 0), (ANSWER, 1)])
def test_a_connection_is_cut_before_a_request_is_handed_on_or_in_place_of_its_answer(
    proxied: Proxied, topic: str, side: str, sent: int
) -> None:
    producer = Producer({"bootstrap.servers": proxied.producers, "retries": 0})
    chosen = Selection(side=side, listener=PRODUCERS, apis=("Produce",), times=1)
    with proxied.control.rule("cut", chosen) as rule:
        producer.produce(topic, b"first")
        assert producer.flush(SECONDS) == 0
    producer.produce(topic, b"second")
    producer.flush(SECONDS)
    assert rule.story.counts == {"Produce": 1} and rule.story.over
    assert values(proxied, topic) == [b"first"] * sent + [b"second"]


def test_only_the_chosen_side_is_hit(proxied: Proxied, topic: str) -> None:
    producer = Producer({"bootstrap.servers": proxied.producers})
    with proxied.control.rule("cut", Selection(listener=RESOLVER)) as rule:
        producer.produce(topic, b"it")
        assert producer.flush(SECONDS) == 0
    assert rule.story.total == 0


def test_what_a_silent_line_has_held_comes_in_its_order(proxied: Proxied, topic: str) -> None:
    producer = Producer({"bootstrap.servers": proxied.producers, "linger.ms": 0})
    producer.produce(topic, b"before")
    producer.flush(SECONDS)
    with proxied.control.rule("silence", Selection(listener=PRODUCERS), SECONDS) as rule:
        for number in range(3):
            producer.produce(topic, str(number).encode())
        wait_until(lambda: rule.story.counts.get("Produce"))
        assert values(proxied, topic) == [b"before"]
    assert producer.flush(SECONDS) == 0
    assert values(proxied, topic) == [b"before", b"0", b"1", b"2"]


def test_a_late_end_of_a_transaction_ends_the_next_one(proxied: Proxied, topic: str) -> None:
    """Of librdkafka's producer alone: without this there would be nothing that can tear."""
    producer = Producer({"bootstrap.servers": proxied.resolver, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    chosen = Selection(listener=RESOLVER, apis=("EndTxn",))
    with proxied.control.rule("late", chosen, moment=Moment("Produce", ANSWER)) as rule:
        for value in (b"a whole one", b"half of one"):
            producer.begin_transaction()
            producer.produce(topic, value)
            producer.flush(SECONDS)
            if not rule.story.over:
                producer.commit_transaction(SECONDS)
    assert rule.story.last_value("answered", "error") == "NONE"
    assert values(proxied, topic) == [b"a whole one", b"half of one"]


def test_delivery_is_not_torn_by_late_requests(tmp_path: Path) -> None:
    """Nothing is lost or doubled, also where a crash follows and the last batch is replayed."""
    chance, like = random.Random(1), WorldKind(proxied=True, bare=True)  # noqa: S311
    with FileLock(tmp_path / "lock") as lock:
        lock.try_acquire()
        world = BareWorld(tmp_path / "world", like, 1, lock.fileno(), threading.Event())
        with world:
            proofs = [late_in_bare(api, WINDOWS[at])(world, chance).proof for api, at in TEARS]
            world.drain()
    assert all("late was" in proof for proof in proofs)
    assert world.judge.verdict.holds and world.judge.verdict.settled >= 3 * 160


def values(proxied: Proxied, topic: str) -> list[bytes | None]:
    """Return what a `read_committed` consumer finds that nothing is done to."""
    found = committed_records({"bootstrap.servers": proxied.direct}, topic)
    return [message.value() for message in found]
