"""A policy that changes while producers run: refused before, or undeliverable, and never lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from resolver import Message, TransactionProducer, TransactionsRejected
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import World, header

from .conftest import QUEUES, Resolving

PRODUCERS = 10
_PAUSE_SECONDS = 0.05


class Application:
    """Sends and commits until it is refused; keeps the ids of what was stored."""

    def __init__(self, world: World) -> None:
        self.stored: list[str] = []
        self.began = threading.Event()
        self.stopped = threading.Event()
        self._world = world

    def run(self) -> None:
        with TransactionProducer(
            "orders",
            self._world.bootstrap,
            checks_elsewhere=True,
            topic_prefix=self._world.prefix,
        ) as producer:
            while not self.stopped.wait(_PAUSE_SECONDS):
                try:
                    with producer.transaction(Message(self._world.real, b"body")) as tx:
                        self.stored.append(tx.transaction_id)
                except TransactionsRejected:
                    return
                self.began.set()


@contextmanager
def running(applications: list[Application]) -> Iterator[list[Future[None]]]:
    with ThreadPoolExecutor(len(applications)) as pool:
        try:
            yield [pool.submit(one.run) for one in applications]
        finally:
            for one in applications:
                one.stopped.set()


def test_no_message_is_lost_while_producers_learn_of_a_new_policy(
    world: World, resolving: Resolving
) -> None:
    patient: dict[str, Any] = {"transaction_timeout_ms": 3_600_000}
    applications = [Application(world) for _ in range(PRODUCERS)]
    settings = Settings(bootstrap_servers=world.bootstrap, topic_prefix=world.prefix, queues=QUEUES)
    ensure_topics(admin_client(settings), settings)
    with running(applications) as ended:
        with resolving(**patient):
            for one in applications:
                assert one.began.wait(PATIENCE_SECONDS)
            world.outcomes(1)  # the resolver decides by the policy before the change
        with resolving(reject_transaction_message=True, **patient):
            for run in ended:
                run.result(PATIENCE_SECONDS)
            stored = {name for one in applications for name in one.stored}
            outcomes = world.outcomes(len(stored))
    undelivered = {name for name in stored if outcomes[name] == "UNDELIVERABLE"}
    assert {outcomes[name] for name in stored - undelivered} == {"COMMIT"}
    discarded = [header(one, "UNIQ_KEY") for one in world.discarded(len(undelivered))]
    delivered = [header(one, "UNIQ_KEY") for one in world.committed(len(stored - undelivered))]
    assert sorted(map(str, discarded)) == sorted(undelivered)
    assert sorted(map(str, delivered)) == sorted(stored - undelivered)
    assert world.reader(world.names.quarantine).all() == []
