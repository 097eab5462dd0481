"""Revocations on a real broker: producers are fenced, queues told, standing partitions freed."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from resolver.broker import Broker
from resolver.errors import TxResolverError
from resolver.kafka.acls import grant
from resolver.kafka.clients import admin_client
from resolver.kafka.partition_offsets import StableEnd, stable_ends
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names, decode_revoked, fence_record, is_revoked
from resolver.resolve.revoker import Revoker
from resolver.resolve.stuck import StuckWatch
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import visible_records
from tests.support.secured import PRINCIPALS, SecuredBroker, Site
from tests.support.world import headers_of

from .fast_producer import FastProducer, produce, sleeping
from .real_topic import make_real, values
from .test_rights_needed import rights_of, without

#: Secret of the revocations that count.
PROOF = "secret"


class Scene:
    """Topics of an own prefix, and a revoker."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self.options = {"bootstrap.servers": broker.bootstrap}
        self.names = Names(prefix)
        self.settings = Settings(
            bootstrap_servers=broker.bootstrap,
            topic_prefix=prefix,
            queues=2,
            fence_interval_ms=100,
        )
        self._admin = admin_client(self.settings)
        ensure_topics(self._admin, self.settings, ["orders"])
        self.real = make_real(self.settings, f"real-{uuid.uuid4().hex[:8]}")
        self.failures: list[TxResolverError] = []

    def producer(self) -> FastProducer:
        return FastProducer(self.options, self.names, "orders")

    def revoker(self) -> Revoker:
        return Revoker(self.settings, PROOF, self.failures.append)

    def store_fence(self) -> None:
        """Store a record in queue 0 that is not to be held up."""
        plain = Producer(self.options)
        produce(plain, fence_record(self.names.op, 0))
        assert plain.flush(PATIENCE_SECONDS) == 0

    def ends(self) -> StableEnd:
        """Return how far queue 0 can be read, and where it ends."""
        return wait_until(lambda: stable_ends(self._admin, self.names.op, 1))[0]

    def revoked(self, queue: int) -> list[str | None]:
        """Return the ids of all revocations that a queue reads, as its step does."""
        return revoked(self.options, self.names, queue)


def revoked(options: dict[str, str], names: Names, queue: int) -> list[str | None]:
    read = visible_records(options, names.op, [queue])
    told = [message for message in read if is_revoked(headers_of(message))]
    return [decode_revoked(message.value(), queue, PROOF) for message in told]


@pytest.fixture
def scene(kafka: Broker, prefix: str) -> Scene:
    return Scene(kafka, prefix)


@contextmanager
def revoking(scene: Scene) -> Iterator[Revoker]:
    revoker = scene.revoker()
    revoker.start()
    yield revoker
    revoker.stop()
    assert not scene.failures


@pytest.fixture
def revoker(scene: Scene) -> Iterator[Revoker]:
    with revoking(scene) as revoker:
        yield revoker


def is_fenced(call: Callable[[], object]) -> bool:
    with pytest.raises(KafkaException) as refused:
        call()
    error = refused.value.args[0]
    return bool(error.fatal()) and error.code() in (KafkaError._FENCED, KafkaError._FATAL)


def test_an_idle_producer_is_fenced_and_each_queue_that_asks_is_told(
    scene: Scene, revoker: Revoker
) -> None:
    producer = scene.producer()
    delivered, late = producer.half(scene.real), producer.half(scene.real)
    producer.commit(delivered)
    revoker.want({1: [producer.fast_id]})
    wait_until(lambda: producer.fast_id in scene.revoked(1))
    assert scene.revoked(0) == []
    assert is_fenced(lambda: producer.commit(late))
    assert values(scene.settings, scene.real) == [delivered.half.body]


def test_the_open_transaction_of_a_producer_is_aborted(scene: Scene, revoker: Revoker) -> None:
    producer = scene.producer()
    at = producer.half(scene.real)
    producer.begin(at)
    revoker.want({0: [producer.fast_id]})
    wait_until(lambda: producer.fast_id in scene.revoked(0))
    assert is_fenced(lambda: producer.client.commit_transaction(PATIENCE_SECONDS))
    assert values(scene.settings, scene.real) == []


def test_a_queue_is_told_again_until_it_no_longer_asks(scene: Scene, revoker: Revoker) -> None:
    fast_id = scene.producer().fast_id
    revoker.want({0: [fast_id]})
    wait_until(lambda: len(scene.revoked(0)) >= 3)
    revoker.want({0: [], 1: [fast_id]})
    wait_until(lambda: len(scene.revoked(1)) >= 2)  # from here on nothing for queue 0 is under way
    told = scene.revoked(0)
    assert set(told) == {fast_id}
    wait_until(lambda: len(scene.revoked(1)) >= 5)
    assert scene.revoked(0) == told


def test_many_are_revoked_with_their_open_transactions(scene: Scene, revoker: Revoker) -> None:
    producers = [scene.producer() for _ in range(20)]
    for producer in producers:
        producer.begin(producer.half(scene.real))
    fast_ids = [producer.fast_id for producer in producers]
    revoker.want({0: fast_ids, 1: fast_ids[:3]})
    wait_until(lambda: set(scene.revoked(0)) == set(fast_ids))
    wait_until(lambda: set(scene.revoked(1)) == set(fast_ids[:3]))
    found = revoker.revoked()
    assert (found.total, found.waiting, found.forbidden) == (20, 0, 0)


def test_a_revocation_that_another_secret_made_names_nobody(scene: Scene) -> None:
    forger = Revoker(scene.settings, "guessed", scene.failures.append)
    forger.start()
    try:
        forger.want({0: [scene.producer().fast_id]})
        wait_until(lambda: scene.revoked(0))
    finally:
        forger.stop()
    assert set(scene.revoked(0)) == {None}


def test_without_permission_it_says_so_and_the_others_are_revoked(
    secured: SecuredBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The resolver may revoke no id of group pay here."""
    site = Site(secured, tmp_path)
    done = site.create("--acls", *PRINCIPALS)
    assert done.exit_code == 0, done.output
    settings, failures = site.settings("resolver"), list[TxResolverError]()
    admin = secured.options("admin")
    allowed, forbidden = (FastProducer(admin, site.names, group) for group in ("orders", "pay"))
    revoker = Revoker(settings, PROOF, failures.append)
    revoker.start()
    try:
        with only_ids_of(site, "orders"):
            revoker.want({0: [forbidden.fast_id, allowed.fast_id]})
            wait_until(lambda: allowed.fast_id in revoked(admin, site.names, 0))
            wait_until(lambda: revoker.revoked().forbidden == 1)
            assert set(revoked(admin, site.names, 0)) == {allowed.fast_id}
            (warned,) = [line for line in caplog.messages if "no permission to revoke" in line]
            assert forbidden.fast_id in warned
            assert f"Write on the transactional ids {site.names.prefix}fast:*" in warned
        wait_until(lambda: forbidden.fast_id in revoked(admin, site.names, 0))
        assert revoker.revoked().forbidden == 0
    finally:
        revoker.stop()
    assert not failures


@contextmanager
def only_ids_of(site: Site, group: str) -> Iterator[None]:
    """Narrow the resolver's right to revoke down to one group, for the length of the block."""
    of_all = next(
        right for right in rights_of(site, "resolver") if right.pattern.endswith("fast:*")
    )
    with without(site, of_all):
        grant(site.broker.admin, [of_all._replace(pattern=site.names.fast_id(group, "*"))])
        yield


@contextmanager
def watching(scene: Scene, revoker: Revoker) -> Iterator[StuckWatch]:
    watch = StuckWatch(scene.settings, revoker, scene.failures.append)
    watch.start()
    yield watch
    watch.stop()


@pytest.fixture
def watch(scene: Scene, revoker: Revoker, caplog: pytest.LogCaptureFixture) -> Iterator[StuckWatch]:
    caplog.set_level(logging.WARNING, "resolver")
    with watching(scene, revoker) as watch:
        yield watch


@pytest.mark.gate
def test_producers_that_sleep_in_their_transactions_hold_up_nobody(
    scene: Scene, watch: StuckWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka would end the transactions after a quarter of an hour: later than any test waits."""
    bootstrap, prefix = scene.settings.bootstrap_servers, scene.settings.topic_prefix
    with sleeping(bootstrap, prefix, scene.real), sleeping(bootstrap, prefix, scene.real):
        scene.store_fence()
        assert scene.ends().stable == 0
        watch.see_fast()
        wait_until(lambda: scene.ends().stable == scene.ends().end)
    assert values(scene.settings, scene.real) == []
    assert "can't be read beyond offset 0, where a transaction is open: revoking" in caplog.text


def test_it_does_not_look_where_no_half_was_fast(
    kafka: Broker, scene: Scene, watch: StuckWatch
) -> None:
    """Another watch that was told of a fast half has looked and revoked by then."""
    other = Scene(kafka, f"other.{scene.names.prefix}")
    for standing in (scene, other):
        producer = standing.producer()
        producer.begin(producer.half(standing.real))
        standing.store_fence()
    with revoking(other) as revoker, watching(other, revoker) as other_watch:
        other_watch.see_fast()
        wait_until(lambda: other.ends().stable > 0)
    assert scene.ends().stable == 0
    watch.see_fast()
    wait_until(lambda: scene.ends().stable > 0)


def test_the_open_transaction_of_somebody_else_is_named_and_let_be(
    scene: Scene, watch: StuckWatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = scene.producer()
    at = producer.half(scene.real)
    producer.begin(at, delivered=False)
    scene.store_fence()
    watch.see_fast()
    wait_until(lambda: "no fast producer has opened it" in caplog.text)
    producer.client.commit_transaction(PATIENCE_SECONDS)
    assert values(scene.settings, scene.real) == [at.half.body]


def test_who_claims_the_half_of_another_can_not_have_it_revoked(
    scene: Scene, watch: StuckWatch, caplog: pytest.LogCaptureFixture
) -> None:
    victim, other = scene.producer(), scene.producer()
    at = victim.half(scene.real)
    guessed = at._replace(half=at.half._replace(transaction_id="guessed"))
    other.begin(guessed)
    scene.store_fence()
    watch.see_fast()
    wait_until(lambda: "no fast producer has opened it" in caplog.text)
    other.client.abort_transaction(PATIENCE_SECONDS)
    victim.commit(at)
    assert values(scene.settings, scene.real) == [at.half.body]


def thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_a_stop_does_not_wait_for_a_revocation_that_hangs(prefix: str, tmp_path: Path) -> None:
    """Kafka does not answer: the broker is halted for as long as the revoker is there."""
    with Broker(tmp_path) as halted:
        scene = Scene(halted, prefix)
        fast_ids = [scene.producer().fast_id for _ in range(3)]
        revoker = scene.revoker()
        os.kill(halted.pid, signal.SIGSTOP)
        try:
            revoker.start()
            revoker.want({0: fast_ids})
            wait_until(lambda: {f"revoke {fast_id}" for fast_id in fast_ids} <= thread_names())
            begun = time.monotonic()
            revoker.stop()
            assert time.monotonic() - begun < 10.0
        finally:
            os.kill(halted.pid, signal.SIGCONT)
    assert not scene.failures
