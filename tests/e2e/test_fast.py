"""Fast commits end to end: a producer delivers by itself, and a resolver judges afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from resolver import Message, TransactionListener, TransactionProducer, TransactionStatus
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.settings import Settings
from tests.support.world import World, header, value_of, warm_transactions

from .conftest import QUEUES, Resolving

#: Short, but in the proportions of the defaults.
SOON: dict[str, Any] = {
    "transaction_timeout_ms": 2_000,
    "transaction_check_interval_ms": 1_500,
    "check_backoff_max_ms": 3_000,
}
PATIENT: dict[str, Any] = {"transaction_timeout_ms": 3_600_000}


class Committed(TransactionListener):
    """Answers that all has committed."""

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE


@pytest.fixture
def topics(world: World) -> None:
    settings = Settings(bootstrap_servers=world.bootstrap, topic_prefix=world.prefix, queues=QUEUES)
    ensure_topics(admin_client(settings), settings)


@contextmanager
def fast_producer(world: World, **options: Any) -> Iterator[TransactionProducer]:
    warm_transactions(world.options)
    given: dict[str, Any] = {"topic_prefix": world.prefix, "fast": True} | options
    with TransactionProducer(world.group, world.bootstrap, Committed(), **given) as producer:
        yield producer


def messages(world: World, count: int) -> list[Message]:
    return [Message(world.real, b"%d" % number, key=b"key") for number in range(count)]


@pytest.mark.usefixtures("topics")
def test_a_fast_commit_is_visible_without_the_resolver_and_recorded_by_it(
    world: World, resolving: Resolving
) -> None:
    with fast_producer(world) as producer:
        begun = [producer.begin(message) for message in messages(world, 10)]
        # A slow machine may have a commit or two go the slow way.
        is_fast = {one.transaction_id: one.commit(wait=True) for one in begun}
        count = sum(is_fast.values())
        assert count > 0
        assert len(world.committed(count)) == count
        rolled_back = producer.begin(Message(world.real, b"never"))
        rolled_back.rollback()
    with resolving(**PATIENT):
        outcomes = world.resolutions(11)
    committed = [one for one in outcomes if one.outcome == "COMMIT"]
    assert {one.transaction_id: one.delivery == "FAST" for one in committed} == is_fast
    assert {(one.source, one.checks) for one in committed} == {("END", 0)}
    assert [(one.outcome, one.delivery) for one in outcomes if one not in committed] == [
        ("ROLLBACK", None)
    ]
    assert sorted(value_of(one) for one in world.committed(10)) == [b"%d" % n for n in range(10)]
    assert {header(one, "HALF_OFFSET") for one in world.committed(10)} == {
        f"{one.queue}:{one.offset}" for one in committed
    }


def test_an_end_by_others_waits_until_the_producer_can_deliver_no_more(
    world: World, resolving: Resolving
) -> None:
    with resolving(**PATIENT), fast_producer(world, fast_immunity_ms=3_600_000) as producer:
        begun = producer.begin(Message(world.real, b"ended by hand"))
        world.end_as(begun, actor="operator")
        (said,) = world.resolutions(1)
        assert (said.outcome, said.source, said.delivery) == ("COMMIT", "OPERATOR", None)
        # The producer finds that its id was revoked, and commits as others do.
        assert not begun.commit(wait=True)
        again = producer.begin(Message(world.real, b"behind it"))
        again.commit()
        world.outcomes(2)
        committed = [value_of(one) for one in world.committed(2)]
    assert sorted(committed) == [b"behind it", b"ended by hand"]


def test_a_slow_local_transaction_costs_nobody_else_the_fast_lane(
    world: World, resolving: Resolving
) -> None:
    with resolving(**SOON), fast_producer(world, fast_immunity_ms=2_000) as producer:
        slow = producer.begin(Message(world.real, b"slow"))
        assert {header(check, "UNIQ_KEY") for check in world.checks(1)} == {slow.transaction_id}
        quick = 1
        while not producer.begin(Message(world.real, b"quick")).commit(wait=True):
            quick += 1
            assert quick < 10  # a slow machine may have one or two go the slow way
        outcomes = {one.transaction_id: one for one in world.resolutions(1 + quick)}
    assert outcomes[slow.transaction_id].source == "CHECK"
    assert outcomes[slow.transaction_id].delivery is None
    values = sorted(value_of(one) for one in world.committed(1 + quick))
    assert values == [b"quick"] * quick + [b"slow"]


#: A producer that says where it is, commits as long as it lives, and is killed.
PROGRAM = """
import sys
from resolver import Message, TransactionProducer
bootstrap, prefix, group, topic = sys.argv[1:]
producer = TransactionProducer(
    group, bootstrap, checks_elsewhere=True, topic_prefix=prefix, fast=True
)
left = producer.begin(Message(topic, b"left"))
print("ready", flush=True)
for number in range(1_000_000):
    producer.begin(Message(topic, b"%d" % number)).commit()
"""


@pytest.mark.usefixtures("topics")
def test_what_a_killed_producer_leaves_is_asked_about_and_all_comes_once(
    world: World, resolving: Resolving
) -> None:
    arguments = [world.bootstrap, world.prefix, world.group, world.real]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    process.stdout.readline()
    world.committed(50)  # it is in the middle of something
    process.send_signal(signal.SIGKILL)
    process.wait()
    halves = world.reader(world.names.half).all()
    with (
        resolving(**SOON),
        TransactionProducer(
            world.group, world.bootstrap, Committed(), topic_prefix=world.prefix
        ) as agent,
    ):
        outcomes = world.resolutions(len(halves))
    assert agent is not None
    assert {one.outcome for one in outcomes} == {"COMMIT"}
    assert {one.delivery for one in outcomes} == {"FAST", None}
    places = [header(one, "HALF_OFFSET") for one in world.committed(len(halves))]
    assert len(places) == len(set(places)) == len(halves)
    assert world.reader(world.names.quarantine).all() == []
