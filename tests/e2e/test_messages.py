"""Messages as they were sent, malformed ones, and those that can't be delivered."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from resolver.protocol import Half, Headers, Record
from tests.support.patience import wait_until
from tests.support.world import (
    ROLLBACK,
    Sent,
    World,
    header,
    headers_of,
    value_of,
)

from .conftest import Resolving

PATIENT: dict[str, Any] = {"transaction_timeout_ms": 3_600_000}
ANY_BYTES = bytes(range(256))


@pytest.mark.gate
def test_messages_are_delivered_bit_for_bit(world: World, resolving: Resolving) -> None:
    repeated: Headers = [("a", b"1"), ("b", None), ("a", ANY_BYTES), ("a", b""), ("ключ", b"x")]
    fields: list[dict[str, Any]] = [
        {"key": None, "body": None},
        {"key": b"", "body": b""},
        {"key": ANY_BYTES, "body": ANY_BYTES * 100},
        {"key": b"k", "body": b"b", "headers": repeated},
        {"key": b"k", "real_qid": 2, "headers": [("TAGS", b"d")]},
    ]
    with resolving(**PATIENT):
        sent = world.send_halves(world.message(**one) for one in fields)
        world.end(*sent)
        delivered = {header(one, "HALF_OFFSET"): one for one in world.committed(len(sent))}

    for one in sent:
        message, half = delivered[one.half_id], one.half
        assert (message.key(), message.value()) == (half.key, half.body)
        assert headers_of(message) == [
            *half.headers,
            ("UNIQ_KEY", half.transaction_id.encode()),
            ("PGROUP", half.group.encode()),
            ("BORN_TIMESTAMP", str(half.born_at_ms).encode()),
            ("HALF_OFFSET", one.half_id.encode()),
        ]
        assert message.timestamp()[1] == one.stored_at_ms
    assert delivered[sent[-1].half_id].partition() == 2


def test_what_few_ops_release_at_once_is_delivered_in_several_batches(
    world: World, resolving: Resolving
) -> None:
    """40 messages of 100 KB pend; a batch may release 512 KiB of a queue."""
    with resolving(max_bytes_per_trigger=1 << 20, **PATIENT):
        pending = world.send_halves(world.message(body=b"x" * 100_000) for _ in range(40))
        world.end(world.send_half())
        world.resolutions(1)
        for first in range(0, 40, 2):
            world.end(*pending[first : first + 2])
        released = Counter(one.batch_id for one in world.resolutions(41)[1:])
        world.committed(41)
    assert max(released.values()) <= 5
    assert len(world.resolutions(41)) == 41


def test_keys_go_where_the_java_partitioner_puts_them(
    world: World, resolving: Resolving, spark: SparkSession
) -> None:
    keys = [b"", b"a", ANY_BYTES, *(f"order-{number}".encode() for number in range(50))]
    with resolving(**PATIENT):
        sent = world.send_halves(world.message(key=key) for key in keys)
        world.end(*sent)
        delivered = world.committed(len(keys))

    jvm = spark.sparkContext._jvm
    assert jvm is not None
    java = jvm.org.apache.kafka.common.utils.Utils
    for message in delivered:
        key = message.key()
        assert key is not None
        expected = java.toPositive(java.murmur2(bytearray(key))) % world.partitions
        assert message.partition() == expected, key


@pytest.mark.gate
def test_malformed_records_are_quarantined_and_their_neighbours_unharmed(
    world: World, resolving: Resolving
) -> None:
    with resolving(**PATIENT):
        good = world.message().to_record(world.names.half, 0)
        broken = [
            _without(good, "TRAN_MSG"),
            _with(good, "UNIQ_KEY", b"x" * 129),
            _with(good, "PGROUP", b"no spaces"),
            _with(good, "PGROUP", world.names.resolver.encode()),
            _with(good, "REAL_TOPIC", world.names.op.encode()),
            _with(good, "BORN_TIMESTAMP", b"yesterday"),
            _with(good, "REAL_QID", b"-1"),
            _with(good, "UNIQ_KEY", b"\xff"),
            _with(good, "HALF_OFFSET", b"0:1"),
            Record(good.topic, good.key, good.value, [*good.headers, ("PGROUP", b"orders")], 0),
            Record(good.topic, None, None, [], 0),
        ]
        before, after = world.message(), world.message()
        encoded = [half.to_record(world.names.half, 0) for half in (before, after)]
        stored = world.produce([encoded[0], *broken, encoded[1]])
        ops = [
            Record(world.names.op, None, b"not JSON", [("TAGS", b"d")], 0),
            Record(world.names.op, None, b"{}", [("TAGS", b"d")], 0),
            Record(world.names.op, None, b"", [("TAGS", b"nothing known")], 0),
            Record(world.names.op, None, None, [], 0),
        ]
        stored_ops = world.produce(ops)
        world.end(_sent(before, stored[0]), _sent(after, stored[-1]))
        refused = world.quarantined(len(broken) + len(ops))
        outcomes = world.outcomes(2)

    by_source = {header(one, "SOURCE"): one for one in refused}
    for reason, records, refusals in (
        ("MALFORMED_HALF", broken, stored[1:-1]),
        ("MALFORMED_OP", ops, stored_ops),
    ):
        for record, at in zip(records, refusals, strict=True):
            one = by_source[f"{at.topic()}:{at.partition()}:{at.offset()}"]
            assert header(one, "REASON") == reason
            assert (one.key(), one.value()) == (record.key, record.value or one.value())
            assert headers_of(one)[: len(record.headers)] == record.headers
            assert header(one, "ERROR")
    assert set(outcomes.values()) == {"COMMIT"}


@pytest.mark.parametrize(
    "fault", [pytest.param("topic", marks=pytest.mark.gate), "partition", "size", "compacted"]
)
def test_what_cannot_be_delivered_does_not_stop_its_neighbours(
    world: World, resolving: Resolving, fault: str
) -> None:
    limited, compacted = f"{world.real}-limited", f"{world.real}-compacted"
    world.make_topic(limited, 1, **{"max.message.bytes": "5000"})
    world.make_topic(compacted, 1, **{"cleanup.policy": "compact"})
    faults: dict[str, dict[str, Any]] = {
        "topic": {"topic": "nowhere"},
        "partition": {"topic": limited, "real_qid": 7},
        "size": {"topic": limited, "body": b"x" * 5_000},
        "compacted": {"topic": compacted, "key": None},
    }
    undeliverable = world.message(**faults[fault])
    topic = undeliverable.topic if fault != "topic" else limited
    with resolving(**PATIENT):
        neighbours = [
            world.message(topic=topic, key=b"%d" % number, body=b"x" * 200) for number in range(100)
        ]
        sent = world.send_halves([*neighbours[:50], undeliverable, *neighbours[50:]])
        world.end(*sent)
        delivered = world.reader(topic).until(100)
        (discarded,) = world.discarded(1)
        outcomes = world.outcomes(101)

    assert [message.key() for message in delivered] == [half.key for half in neighbours]
    assert outcomes.pop(undeliverable.transaction_id) == "UNDELIVERABLE"
    assert set(outcomes.values()) == {"COMMIT"}
    assert header(discarded, "REASON") == "UNDELIVERABLE"
    assert header(discarded, "ERROR")
    assert header(discarded, "HALF_OFFSET") == sent[50].half_id
    assert (discarded.key(), discarded.value()) == (undeliverable.key, undeliverable.body)
    assert undeliverable.topic not in world.admin.list_topics().topics or fault != "topic"


def test_a_half_that_fits_only_compressed_stops_nobody(world: World, resolving: Resolving) -> None:
    """Its check and its end are larger than their topics take: they are cut."""
    settings = {"transaction_timeout_ms": 1_000, "transaction_check_interval_ms": 60_000}
    with resolving(**settings):
        large = world.message(body=bytes(2_000_000))
        packed = Producer(
            {
                "bootstrap.servers": world.bootstrap,
                "compression.type": "gzip",
                "message.max.bytes": 3_000_000,
            }
        )
        record = large.to_record(world.names.half, 0)
        packed.produce(record.topic, record.value, headers=list(record.headers), partition=0)
        packed.flush()
        (check,) = world.checks(1)
        world.end(Sent(large, 0, 0, 0), from_check=True)
        (discarded,) = world.discarded(1)
        world.end(world.send_half())
        outcomes = world.outcomes(2)

    for cut in (check, discarded):
        assert header(cut, "TRUNCATED") == "true"
        assert header(cut, "UNIQ_KEY") == large.transaction_id
        assert 1_000_000 < len(value_of(cut)) < 2_000_000
    assert sorted(outcomes.values()) == ["COMMIT", "UNDELIVERABLE"]


def test_a_commit_that_the_policy_refuses_is_undeliverable_and_not_lost(
    world: World, resolving: Resolving
) -> None:
    """The policy counts that a half was read by, also when it ends under another one."""
    with resolving(reject_transaction_message=True):
        at_once, later, dropped = (world.send_half(body=b"kept") for _ in range(3))
        world.end(at_once)
        world.end(dropped, state=ROLLBACK)
        world.outcomes(2)
    with resolving():
        world.end(later)
        outcomes = world.outcomes(3)
        gone = world.discarded(2)
    lost = {at_once.half.transaction_id, later.half.transaction_id}
    dropped_too = {dropped.half.transaction_id: "ROLLBACK"}
    assert outcomes == dict.fromkeys(lost, "UNDELIVERABLE") | dropped_too
    assert {header(one, "UNIQ_KEY") for one in gone} == lost
    assert {header(one, "REASON") for one in gone} == {"UNDELIVERABLE"}
    assert {one.value() for one in gone} == {b"kept"}
    said = "new transactions are refused while reject_transaction_message is set"
    assert {header(one, "ERROR") for one in gone} == {said}


def _without(record: Record, name: str) -> Record:
    kept = [pair for pair in record.headers if pair[0] != name]
    return Record(record.topic, record.key, record.value, kept, 0)


def _with(record: Record, name: str, value: bytes) -> Record:
    changed = _without(record, name)
    changed.headers.append((name, value))
    return changed


def _sent(half: Half, stored: Any) -> Sent:
    return Sent(half, stored.partition(), stored.offset(), stored.timestamp()[1])


def test_batches_leave_no_socket_open_in_sparks_jvm(
    spark: SparkSession, world: World, resolving: Resolving
) -> None:
    """Spark 4.2.0 by itself leaves one open for each task that decides."""
    java = spark._jvm
    assert java is not None
    jvm = psutil.Process(java.ProcessHandle.current().pid())

    def left_open() -> int:
        return sum(one.status == psutil.CONN_CLOSE_WAIT for one in jvm.net_connections("tcp"))

    before = left_open()
    with resolving(**PATIENT):
        for batches in range(1, 11):
            world.end(world.send_half())
            world.committed(batches)
        wait_until(lambda: left_open() <= before)
