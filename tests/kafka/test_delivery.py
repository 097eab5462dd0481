"""Delivery on a real broker: the marker's rules, and what must not stop a batch."""

from __future__ import annotations

import logging
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import orjson
import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from resolver.broker import Broker, Security
from resolver.broker.jars import kafka_classpath
from resolver.broker.java import find_java
from resolver.errors import DeliveryError, MarkerMismatch, ResolverError
from resolver.kafka.clients import admin_client, client_config
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.resolve.delivery import Delivery
from resolver.resolve.delivery.packed import DecisionRecords, Output
from resolver.resolve.rebuild import ensure_all_topics, refuse_gaps
from resolver.settings import Settings
from resolver.spark.points import Point
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.second_node import SecondNode, have_kafkas_topics_made

from .real_topic import commit, make_real, values

Deliveries = Callable[[str], Delivery]


@pytest.fixture
def settings(kafka: Broker, prefix: str) -> Settings:
    settings = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix, queues=1)
    ensure_topics(admin_client(settings), settings)
    return settings


@pytest.fixture
def deliveries(settings: Settings) -> Iterator[Deliveries]:
    """Return what makes deliveries of a checkpoint; they are closed at the end."""
    made: list[Delivery] = []

    def make(checkpoint: str) -> Delivery:
        made.append(Delivery(settings, checkpoint))
        return made[-1]

    yield make
    for delivery in made:
        delivery.close()


@pytest.fixture
def real(settings: Settings) -> str:
    return make_real(settings, f"real-{uuid.uuid4().hex[:8]}")


def test_a_batch_that_the_marker_holds_is_not_written_again(
    settings: Settings, deliveries: Deliveries, real: str
) -> None:
    batch = _parts(_message(real, b"once"))
    first = deliveries("checkpoint")
    first.start(is_new=True)
    first.deliver(0, batch)
    again = deliveries("checkpoint")
    again.start(is_new=False)
    again.deliver(0, batch)
    again.deliver(1, _parts(_message(real, b"next")))
    assert values(settings, real) == [b"once", b"next"]


def test_a_replay_that_decides_otherwise_is_refused(deliveries: Deliveries, real: str) -> None:
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    delivery.deliver(3, _parts(_message(real, b"this")))
    with pytest.raises(MarkerMismatch, match="digest"):
        delivery.deliver(3, _parts(_message(real, b"that")))


@pytest.mark.gate
def test_a_checkpoint_older_than_its_marker_is_refused(deliveries: Deliveries, real: str) -> None:
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    delivery.deliver(3, _parts(_message(real, b"new")))
    with pytest.raises(MarkerMismatch, match="older than its marker"):
        delivery.deliver(2, _parts(_message(real, b"old")))


def test_to_keep_the_marker_takes_no_batch_back(
    settings: Settings, deliveries: Deliveries, real: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of one whose commit came through, of which the resolver never heard before it gave up."""
    caplog.set_level(logging.DEBUG, "resolver.resolve.delivery")
    batch = _parts(_message(real, b"second"))
    first = deliveries("checkpoint")
    first.start(is_new=True)
    first.deliver(0, _parts(_message(real, b"first")))
    with _losing_an_answer(first), pytest.raises(DeliveryError, match="batch 1 is not written yet"):
        first.deliver(1, batch)
    first.keep_alive(seconds=-1)
    again = deliveries("checkpoint")
    again.start(is_new=False)
    again.deliver(1, batch)
    assert values(settings, real) == [b"first", b"second"]


@pytest.mark.parametrize("is_new", [True, False])
def test_where_the_marker_is_lost_nothing_is_delivered_anew(
    settings: Settings, deliveries: Deliveries, is_new: bool
) -> None:
    names = Names(settings.topic_prefix)
    # Its membership ends that soon after it.
    first = Delivery(replace(settings, kafka={"session.timeout.ms": "6000"}), "checkpoint")
    first.start(is_new=True)
    first.deliver(0, _parts(_message(names.resolution, b"{}")))
    first.close()
    wait_until(lambda: _is_deleted(settings, f"{settings.topic_prefix}resolver"))

    again = deliveries("another" if is_new else "checkpoint")
    with pytest.raises(MarkerMismatch, match="--rebuild"):
        again.start(is_new=is_new)
    again.start(is_new=is_new, rebuild=True)


def test_once_a_half_was_fast_the_marker_says_so_for_good(
    settings: Settings, deliveries: Deliveries, real: str
) -> None:
    first = deliveries("checkpoint")
    first.start(is_new=True)
    first.deliver(0, _parts(_message(real, b"first")))
    assert "needs" not in _marked(settings), "a version from before fast commits may go on"
    first.deliver(1, _parts(), has_fast=True)
    said = {"batch": 1, "needs": "a resolver that knows fast commits"}
    assert said.items() <= _marked(settings).items()
    first.deliver(2, _parts(_message(real, b"second")))
    rebuilt = deliveries("another")
    rebuilt.start(is_new=True, rebuild=True)
    assert rebuilt.has_fast
    assert said["needs"] == _marked(settings)["needs"]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"needs": "a later one"}, r"delivered up to batch 7 .* needs a later one; start the ver"),
        ({"unknown": "x"}, "which no resolver wrote"),
    ],
)
def test_a_marker_that_a_later_version_wrote_is_refused(
    settings: Settings, deliveries: Deliveries, more: dict[str, str], said: str
) -> None:
    """Also by a rebuild: it would deliver what that version knows to be delivered."""
    marker = {"checkpoint": "checkpoint", "instance": "i", "batch": 7, **more}
    names = Names(settings.topic_prefix)
    consumer = Consumer(client_config(settings, **{"group.id": names.resolver}))
    place = TopicPartition(names.marker, 0, 8, orjson.dumps(marker).decode())
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    for rebuild in (False, True):
        with pytest.raises(MarkerMismatch, match=said):
            deliveries("checkpoint").start(is_new=rebuild, rebuild=rebuild)


def _marked(settings: Settings) -> dict[str, Any]:
    """Return the marker as any program reads it."""
    names = Names(settings.topic_prefix)
    consumer = Consumer(client_config(settings, **{"group.id": names.resolver}))
    (place,) = consumer.committed([TopicPartition(names.marker, 0)], PATIENCE_SECONDS)
    consumer.close()
    found: dict[str, Any] = orjson.loads(place.metadata or "")
    return found


def _is_deleted(settings: Settings, group: str) -> bool:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    try:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NON_EMPTY_GROUP:
            raise
        return False
    return True


def test_a_check_topic_that_cannot_be_made_stops_nothing(
    settings: Settings, deliveries: Deliveries, real: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka refuses a name that differs from another one's by a dot for an underscore."""
    names = Names(settings.topic_prefix)
    ensure_topics(admin_client(settings), settings, ["a.b"])
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    unwritable = _message(names.check("a_b"), b"asked for nothing")
    others = [_message(names.check(group), b"asked") for group in ("a", "b")]
    delivery.deliver(0, _parts(unwritable, unwritable, *others, _message(real, b"delivered")))
    assert values(settings, real) == [b"delivered"]
    assert [values(settings, names.check(group)) for group in ("a", "b")] == [[b"asked"]] * 2
    made, left_out = (
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name.startswith("resolver.resolve.")
    )
    assert "group a_b can't be made: groups 'a_b' and 'a.b' differ only in . and _" in made
    assert "halves that nobody ended are discarded after 72 hours" in made
    assert left_out.endswith("make it with `txresolver topics create --group a_b`")


def test_a_check_topic_that_was_deleted_stops_nothing(
    settings: Settings, deliveries: Deliveries, real: str
) -> None:
    """A retired group's: what was known of it a moment ago holds no more."""
    topic = Names(settings.topic_prefix).check("retired")
    admin = admin_client(settings)
    ensure_topics(admin, settings, ["retired"])
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    delivery.deliver(0, _parts(_message(topic, b"asked"), _message(real, b"first")))
    admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
    delivery.deliver(1, _parts(_message(topic, b"asked for nothing"), _message(real, b"second")))
    assert values(settings, real) == [b"first", b"second"]


@contextmanager
def without_leader(folder: Path, topic: str) -> Iterator[tuple[Settings, SecondNode]]:
    """A cluster in which a topic has no leader, until its node is started."""
    soon = Security({"broker.session.timeout.ms": 6_000})  # a node that comes again is taken then
    with Broker(folder / "first", security=soon) as first:
        settings = Settings(bootstrap_servers=first.bootstrap, queues=1)
        ensure_topics(admin_client(settings), settings)
        make_real(settings, "real")
        have_kafkas_topics_made(first)
        second = SecondNode(first, folder / "second")
        try:
            second.start()
            second.make_topic(topic)
            second.stop()
            yield settings, second
        finally:
            second.stop()


def test_a_check_topic_without_a_leader_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka would try on and on."""
    topic = "tx.check.orders"
    batch = _parts(_message(topic, b"asked for nothing"), _message("real", b"delivered"))
    with without_leader(tmp_path, topic) as (settings, _):
        delivery = Delivery(settings, "checkpoint")
        delivery.start(is_new=True)
        delivery.deliver(0, batch)
        assert values(settings, "real") == [b"delivered"]
        delivery.close()
    assert f"topic {topic} has no leader, or too few replicas in sync, of 0" in caplog.text


def test_where_checks_count_unanswered_their_topics_leader_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else halves would be given up that nobody was asked about."""
    caplog.set_level(logging.DEBUG, "resolver.resolve.delivery")
    topic = "tx.check.orders"
    batch = _parts(_message(topic, b"asked"), _message("real", b"delivered"))
    with without_leader(tmp_path, topic) as (settings, second), ThreadPoolExecutor() as pool:
        counting = replace(
            settings, count_unanswered_checks=True, kafka_transaction_timeout_ms=10_000
        )
        delivery = Delivery(counting, "checkpoint")
        delivery.start(is_new=True)
        delivering = pool.submit(delivery.deliver, 0, batch)
        wait_until(lambda: f"batch 0: {Point.OPEN}" in caplog.text)
        assert not delivering.done()
        second.start()
        delivering.result(PATIENCE_SECONDS)
        assert values(settings, topic) == [b"asked"]
        assert values(settings, "real") == [b"delivered"]
        delivery.close()


def test_a_check_topic_with_fewer_replicas_than_it_wants_in_sync_takes_checks(
    settings: Settings, deliveries: Deliveries
) -> None:
    """Kafka wants no more than there are."""
    topic = Names(settings.topic_prefix).check("orders")
    admin = admin_client(settings)
    ensure_topics(admin, settings, ["orders"])
    entry = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    config = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([config])[config].result(PATIENCE_SECONDS)
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    delivery.deliver(0, _parts(_message(topic, b"asked")))
    assert values(settings, topic) == [b"asked"]


def test_a_rebuild_is_refused_where_outcomes_of_halves_may_be_gone(settings: Settings) -> None:
    names = Names(settings.topic_prefix)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(names.half, b"a half", partition=0)
    producer.produce(names.resolution, b"its outcome", partition=0)
    producer.flush()
    refuse_gaps(settings)

    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(names.resolution, 0, 1)]).values():
        deleted.result(PATIENCE_SECONDS)
    with pytest.raises(ResolverError, match="may be gone"):
        refuse_gaps(settings)


def test_outcomes_that_are_gone_are_not_made_anew_without_a_word(
    settings: Settings, deliveries: Deliveries
) -> None:
    ensure_all_topics(settings)  # before any resolver has run they may be missing
    topic = Names(settings.topic_prefix).resolution
    deliveries("checkpoint").start(is_new=True)
    admin = admin_client(settings)
    admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics)
    with pytest.raises(ResolverError, match=r"is gone.*txresolver topics create"):
        ensure_all_topics(settings)
    ensure_topics(admin, settings)
    ensure_all_topics(settings)


def test_halves_stored_before_a_clock_stepped_back_hold_up_nothing(
    settings: Settings, deliveries: Deliveries, real: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic refuses their timestamps: two refusals tell of all of them."""
    caplog.set_level(logging.DEBUG, "resolver.resolve.delivery")
    now_ms = time.time_ns() // 1_000_000
    names = Names(settings.topic_prefix)
    ahead = [commit(real, offset, now_ms + 7_200_000, names) for offset in range(200)]
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    delivery.deliver(0, [msgpack.packb([*ahead, commit(real, 200, now_ms, names)])])
    assert values(settings, real) == [b"200"]
    assert len(values(settings, names.discarded)) == 200
    assert sum(f"batch 0: {Point.OPEN}" in line for line in caplog.messages) < 5


def test_a_partition_that_was_added_a_moment_ago_is_written_to(
    settings: Settings, deliveries: Deliveries, real: str
) -> None:
    """The producer that is there does not know of it yet, and does for the next five minutes."""
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    names, now_ms = Names(settings.topic_prefix), time.time_ns() // 1_000_000
    delivery.deliver(0, [msgpack.packb([commit(real, 0, now_ms, names)])])
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_partitions([NewPartitions(real, 3)])[real].result(PATIENCE_SECONDS)
    added = [commit(real, offset, now_ms, names, partition=offset) for offset in (1, 2)]
    delivery.deliver(1, [msgpack.packb([*added, commit(real, 3, now_ms, names, partition=3)])])
    delivered = [values(settings, real, partition) for partition in range(3)]
    assert delivered == [[b"0"], [b"1"], [b"2"]]
    assert values(settings, names.discarded) == [b"3"]


def test_a_commit_for_a_topic_of_kafkas_own_does_not_stop_its_neighbours(
    settings: Settings, deliveries: Deliveries, real: str
) -> None:
    names, now_ms = Names(settings.topic_prefix), time.time_ns() // 1_000_000
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    own = [
        commit(topic, offset, now_ms, names, key=b"key")
        for offset, topic in enumerate(["__consumer_offsets", "__transaction_state"])
    ]
    delivery.deliver(0, [msgpack.packb([*own, commit(real, 2, now_ms, names)])])
    assert values(settings, real) == [b"2"]
    assert Counter(values(settings, names.discarded)) == Counter([b"0", b"1"])


def test_one_message_that_is_refused_among_many_does_not_stop_them(
    settings: Settings, deliveries: Deliveries, real: str
) -> None:
    """It is refused while the others are still being handed over."""
    now_ms = time.time_ns() // 1_000_000
    names = Names(settings.topic_prefix)
    batch = [commit(real, offset, now_ms, names) for offset in range(40_000)]
    batch[30_000] = commit(real, 30_000, now_ms + 7_200_000, names)
    delivery = deliveries("checkpoint")
    delivery.start(is_new=True)
    delivery.deliver(0, [msgpack.packb(batch)])
    delivered = values(settings, real)
    assert len(delivered) == len(set(delivered)) == 39_999
    assert values(settings, names.discarded) == [b"30000"]


def test_a_batch_has_its_time_while_a_slow_kafka_takes_more_and_more_of_it(
    kafka: Broker, settings: Settings, real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it is slow by a quota: half a second for each message, once its burst is used up."""
    monkeypatch.setattr("resolver.resolve.delivery.attempts._RETRY_SECONDS", 60.0)
    slow = f"slow-{uuid.uuid4().hex}"
    _limit(kafka, slow, bytes_per_second=2_000_000)
    delivery = Delivery(replace(settings, kafka={"client.id": slow}), "checkpoint")
    try:
        delivery.start(is_new=True)
        delivery.deliver(0, _parts(*[_message(real, bytes(1_000_000)) for _ in range(40)]))
    finally:
        delivery.close()
    assert len(values(settings, real)) == 40


@contextmanager
def _losing_an_answer(delivery: Delivery) -> Iterator[None]:
    """Let the next commit reach Kafka, its answer be lost, and the resolver be told to stop."""

    class Losing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if Point.COMMITTED in (record.args or ()):
                delivery.give_up()
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    logger, losing = logging.getLogger("resolver.resolve.delivery"), Losing()
    logger.addHandler(losing)
    try:
        yield
    finally:
        logger.removeHandler(losing)


def _limit(kafka: Broker, client: str, bytes_per_second: int) -> None:
    """Limit what a client may write, as an operator does."""
    jars = ":".join(map(str, kafka_classpath()))
    tool = [str(find_java()), "-cp", jars, "kafka.admin.ConfigCommand", "--alter"]
    where = ["--bootstrap-server", kafka.bootstrap, "--entity-type", "clients"]
    limit = ["--entity-name", client, "--add-config", f"producer_byte_rate={bytes_per_second}"]
    done = subprocess.run([*tool, *where, *limit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _message(topic: str, value: bytes) -> Output:
    return Output(topic, None, value, (), -1, time.time_ns() // 1_000_000)


def _parts(*messages: Output) -> list[bytes]:
    """Pack messages as the workers do."""
    half_headers = msgpack.packb([])
    return [msgpack.packb([DecisionRecords(message, None, half_headers) for message in messages])]
