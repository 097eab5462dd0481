"""How resolve reads: ranges of offsets on the driver, and their records in a worker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from resolver.broker import Broker
from resolver.errors import ResolverError
from resolver.kafka.clients import admin_client
from resolver.kafka.partition_offsets import QueueOffsets
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Record, StoredRecord
from resolver.resolve.lost_records import Seen
from resolver.resolve.reader import Range, RangeReader
from resolver.resolve.source import Ranges
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .protocol_topics import ProtocolTopics
from .raw_header import write_with_header

NOTHING = Range(0, 0)


@pytest.fixture
def topics(kafka: Any, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make()
    return made


@pytest.fixture
def records(topics: ProtocolTopics) -> Iterator[RangeReader]:
    reader = RangeReader(topics.settings)
    yield reader
    reader.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan leaves a queue out because the machine is busy."""
    monkeypatch.setattr("resolver.kafka.end_offsets._ANSWER_SECONDS", PATIENCE_SECONDS)


def test_a_range_has_its_records_in_order_as_they_were_stored(
    topics: ProtocolTopics, records: RangeReader
) -> None:
    odd: list[tuple[str, bytes | None]] = [("a", None), ("a", b""), ("é", b"\xff")]
    topics.write(
        *(Record(topics.names.half, b"k%d" % at, None, odd, 1) for at in range(5)),
        *(Record(topics.names.op, None, b"op %d" % at, [], 1) for at in range(3)),
    )
    halves, ops = records.read(1, Range(1, 4), Range(0, 3))
    assert [(half.offset, half.key, half.value, half.headers) for half in halves] == [
        (at, b"k%d" % at, None, odd) for at in range(1, 4)
    ]
    assert [(op.offset, op.value, op.headers) for op in ops] == [
        (at, b"op %d" % at, []) for at in range(3)
    ]
    assert all(record.stored_at_ms > 0 for record in halves + ops)
    whole, _ = records.read(1, Range(0, 5), NOTHING)
    assert offsets(whole) == list(range(5)) and whole[1:4] == halves
    assert records.read(1, NOTHING, Range(2, 3)) == ([], ops[2:])


def test_a_record_with_a_header_name_that_is_no_text_is_read_without_headers(
    topics: ProtocolTopics, records: RangeReader
) -> None:
    # After many others: the interpreter treats a frequent call otherwise.
    topics.write(*(Record(topics.names.half, None, b"", [("a", b"")], 0) for _ in range(300)))
    write_with_header(topics.bootstrap, topics.names.half, b"\xff\xfe")
    halves, _ = records.read(0, Range(0, 301), NOTHING)
    assert [half.headers for half in halves] == [[("a", b"")]] * 300 + [None]


def test_aborted_records_are_passed_over_and_a_range_may_end_with_them(
    topics: ProtocolTopics, records: RangeReader
) -> None:
    write_transaction(topics, [b"0", b"1"], commit=True)  # the marker is at 2
    write_transaction(topics, [b"3", b"4"], commit=False)
    # A busy machine's first plans may leave the queue out.
    wait_until(lambda: ends(topics)[topics.names.half]["0"] == 6)
    assert offsets(records.read(0, Range(0, 6), NOTHING)[0]) == [0, 1]
    assert records.read(0, Range(2, 6), NOTHING) == ([], [])
    topics.write(Record(topics.names.half, None, b"6", [], 0))
    assert records.read(0, Range(3, 6), NOTHING) == ([], [])
    assert offsets(records.read(0, Range(1, 7), NOTHING)[0]) == [1, 6]


def test_a_partition_that_lost_its_last_records_is_an_error(
    topics: ProtocolTopics,
) -> None:
    """As after a machine without power: what a batch was planned to read is gone."""
    topics.write(Record(topics.names.half, None, b"", [], 0))
    with (
        closing(RangeReader(topics.settings, patience_seconds=3.0)) as records,
        pytest.raises(ResolverError, match=r"from 0 to 5.*It ends at 1; .*--rebuild"),
    ):
        records.read(0, Range(0, 5), NOTHING)


def test_a_leader_that_does_not_know_a_record_yet_has_not_deleted_it(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that was cut off from the others: a new client finds the later leader."""
    half = Record(topics.names.half, None, b"", [], 0)
    topics.write(*[half] * 3)
    with closing(RangeReader(topics.settings)) as records, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(records.read, 0, Range(5, 6), NOTHING)
        wait_until(lambda: "It has no offset 5" in caplog.text)
        topics.write(*[half] * 3)
        assert offsets(reading.result(PATIENCE_SECONDS)[0]) == [5]


@pytest.mark.gate
def test_records_that_kafka_deleted_before_they_were_read_are_an_error(
    topics: ProtocolTopics, records: RangeReader
) -> None:
    topics.write(*(Record(topics.names.half, None, b"", [], 0) for _ in range(5)))
    place = TopicPartition(topics.names.half, 0, 3)
    admin = admin_client(topics.settings)
    admin.delete_records([place])[place].result(PATIENCE_SECONDS)
    with pytest.raises(ResolverError, match=r"deleted records before they were read.*--rebuild"):
        records.read(0, Range(2, 5), NOTHING)
    assert offsets(records.read(0, Range(3, 5), NOTHING)[0]) == [3, 4]


@pytest.mark.usefixtures("patient")
def test_a_batch_reads_what_is_new_within_its_limit(topics: ProtocolTopics) -> None:
    topics.write(*(Record(topics.names.half, None, b"", [], at % 2) for at in range(80)))
    topics.write(*(Record(topics.names.op, None, b"", [], 1) for _ in range(20)))
    source = Ranges(replace(topics.settings, max_offsets_per_trigger=10))
    start = source.initialOffset()
    rows, end = source.read(start)
    expected = [(0, 0, 4, 0, 0), (1, 0, 4, 0, 2)]
    assert list(rows) == expected
    assert list(source.readBetweenOffsets(start, end)) == expected
    for _ in range(20):
        _, end = source.read(json.loads(json.dumps(end)))  # as Spark's log has it
    assert end == ends(topics)
    assert list(source.read(end)[0]) == []


@pytest.mark.usefixtures("patient")
def test_a_batch_of_large_records_has_fewer(topics: ProtocolTopics) -> None:
    halves, ops = topics.names.half, topics.names.op
    topics.write(*(Record(halves, None, b"x" * 2_000, [], 0) for _ in range(2_000)))
    topics.write(*(Record(ops, None, b"x" * 20, [], 1) for _ in range(2_000)))
    source = Ranges(replace(topics.settings, max_bytes_per_trigger=1 << 20))
    (first, second), end = source.read(source.initialOffset())
    assert 400 < first[2] < 600  # of 2 KB each, and as many ops
    assert second[4] == first[2]
    assert next(source.read(end)[0])[1] == first[2]


@pytest.mark.usefixtures("patient")
def test_where_the_first_records_of_a_batch_are_small_its_last_ones_tell(
    topics: ProtocolTopics,
) -> None:
    halves = topics.names.half
    topics.write(*(Record(halves, None, b"small", [], 0) for _ in range(100)))
    topics.write(*(Record(halves, None, b"x" * 2_000, [], 0) for _ in range(4_000)))
    source = Ranges(replace(topics.settings, max_bytes_per_trigger=1 << 20))
    ((_, _, end, *_),) = wait_until(lambda: list(source.read(source.initialOffset())[0]))
    assert 500 < end < 800  # a sixth of those sampled is small


@pytest.mark.usefixtures("patient")
def test_a_burst_of_large_records_within_a_batch_tells_too(topics: ProtocolTopics) -> None:
    halves = topics.names.half
    for body in (b"small", b"x" * 2_000, b"small"):
        topics.write(*(Record(halves, None, body, [], 0) for _ in range(3_000)))
    source = Ranges(replace(topics.settings, max_bytes_per_trigger=1 << 20))
    ((_, _, end, *_),) = wait_until(lambda: list(source.read(source.initialOffset())[0]))
    assert 1_000 < end < 3_000  # 500 were they all large


@pytest.mark.usefixtures("patient")
def test_few_records_may_be_too_large_for_a_batch_too(topics: ProtocolTopics) -> None:
    halves = topics.names.half
    topics.write(*(Record(halves, None, b"x" * 500_000, [], 0) for _ in range(8)))
    source = Ranges(replace(topics.settings, max_bytes_per_trigger=1 << 21))
    ((_, _, end, *_),) = wait_until(lambda: list(source.read(source.initialOffset())[0]))
    assert end == 4


@pytest.mark.usefixtures("patient")
def test_an_open_transaction_is_not_read(topics: ProtocolTopics) -> None:
    producer = transactional(topics)
    producer.begin_transaction()
    producer.produce(topics.names.half, b"open", partition=0)
    producer.flush(PATIENCE_SECONDS)
    topics.write(Record(topics.names.half, None, b"behind it", [], 0))
    assert ends(topics)[topics.names.half]["0"] == 0
    producer.commit_transaction(30)
    assert ends(topics)[topics.names.half]["0"] == 3


@pytest.mark.usefixtures("patient")
def test_a_topic_that_was_made_anew_is_an_error(
    topics: ProtocolTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once no other leader was found: the leader asked may have been cut off."""
    monkeypatch.setattr("resolver.kafka.leaders._FORMER_SECONDS", 0.0)
    end = ends(topics)
    end[topics.names.op]["1"] = 7
    with pytest.raises(ResolverError, match=r"partition 1 of .*op ends at 0, and was read up to 7"):
        Ranges(topics.settings).read(end)


def test_while_kafka_is_away_there_is_nothing_new(topics: ProtocolTopics) -> None:
    start = ends(topics)
    away = Ranges(replace(topics.settings, bootstrap_servers="127.0.0.1:1"))
    rows, end = away.read(start)
    assert (list(rows), end) == ([], start)


def test_while_a_broker_that_answered_does_not_there_is_nothing_new(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        settings = Settings(bootstrap_servers=broker.bootstrap, queues=2)
        ensure_topics(admin_client(settings), settings)
        ranges = Ranges(settings)
        start = ranges.initialOffset()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            rows, end = ranges.read(start)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert (list(rows), end) == ([], start)


def test_what_was_asked_for_while_a_broker_was_killed_is_read_when_it_is_back(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path) as broker, ThreadPoolExecutor(1) as pool:
        topics = ProtocolTopics(broker.bootstrap, "tx.")
        topics.make()
        half = topics.names.half
        ranges, records = Ranges(topics.settings), RangeReader(topics.settings)
        start = ranges.initialOffset()
        topics.write(*(Record(half, None, b"%d" % at, [], 0) for at in range(200)))
        assert offsets(records.read(0, Range(0, 100), NOTHING)[0]) == list(range(100))

        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
        reading = pool.submit(records.read, 0, Range(100, 200), NOTHING)
        rows, end = ranges.read(start)
        assert (list(rows), end) == ([], start)
        broker.start()
        assert offsets(reading.result()[0]) == list(range(100, 200))
        wait_until(lambda: ranges.read(start)[1][half]["0"] == 200)
        records.close()


def test_records_in_the_place_of_lost_ones_are_not_taken_for_what_comes_next(
    tmp_path: Path,
) -> None:
    """As after a machine without power, whose disk had not all that Kafka had acknowledged."""
    with Broker(tmp_path) as broker:
        topics = ProtocolTopics(broker.bootstrap, "tx.")
        topics.make()
        records, seen = RangeReader(topics.settings), dict[str, Seen]()
        write_alone(topics, range(10))
        records.read(0, Range(0, 10), NOTHING, seen)
        assert seen[topics.names.half].offset == 9

        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
        broker.start()
        write_alone(topics, range(10, 20))  # nothing is lost, and a later leader stores them
        records.read(0, Range(10, 12), NOTHING, seen)
        records.read(0, Range(12, 15), NOTHING, seen)
        records.read(0, Range(15, 20), NOTHING, seen)
        assert seen[topics.names.half].offset == 19

        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
        lose_behind(tmp_path, f"{topics.names.half}-0", count=17)
        broker.start()
        write_alone(topics, range(17, 25))
        for reader in (records, RangeReader(topics.settings)):
            with pytest.raises(ResolverError, match=r"lost records up to 19.*--rebuild"):
                reader.read(0, Range(20, 25), NOTHING, seen)
            reader.close()


def test_records_of_an_earlier_leader_in_the_place_of_lost_ones_are_noticed_too(
    topics: ProtocolTopics, records: RangeReader
) -> None:
    """As after a whole cluster was restored from a copy: its leaders count on from there."""
    write_alone(topics, range(25))
    seen = {topics.names.half: Seen(offset=19, epoch=7)}
    with pytest.raises(ResolverError, match=r"lost records up to 19.*--rebuild"):
        records.read(0, Range(20, 25), NOTHING, seen)


@pytest.mark.usefixtures("patient")
def test_each_range_begins_where_the_last_one_ended(
    topics: ProtocolTopics, records: RangeReader
) -> None:
    """More than the first one asks for has been fetched by then."""
    half = topics.names.half
    topics.write(*(Record(half, None, b"%d" % number, [], 0) for number in range(3_000)))
    read: list[int] = []
    for first in range(0, 3_000, 100):
        halves, ops = records.read(0, Range(first, first + 100), NOTHING)
        assert ops == []
        read += offsets(halves)
    assert read == list(range(3_000))


def write_alone(topics: ProtocolTopics, numbers: range) -> None:
    """Write records, each as a batch of its own."""
    for number in numbers:
        topics.write(Record(topics.names.half, None, b"%d" % number, [], 0))


def lose_behind(home: Path, partition: str, count: int) -> None:
    """Cut a partition's log behind this many batches, which Kafka then recovers."""
    (log,) = home.glob(f"**/{partition}/*.log")
    stored, end = log.read_bytes(), 0
    for _ in range(count):
        end += 12 + int.from_bytes(stored[end + 8 : end + 12], "big")
    os.truncate(log, end)


def offsets(records: list[StoredRecord]) -> list[int]:
    return [record.offset for record in records]


def ends(topics: ProtocolTopics) -> QueueOffsets:
    source = Ranges(topics.settings)
    return source.read(source.initialOffset())[1]


def transactional(topics: ProtocolTopics) -> Producer:
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap, "transactional.id": topics.names.prefix}
    )
    producer.init_transactions(30)
    return producer


def write_transaction(topics: ProtocolTopics, values: list[bytes], commit: bool) -> None:
    producer = transactional(topics)
    producer.begin_transaction()
    for value in values:
        producer.produce(topics.names.half, value, partition=0)
    producer.flush(PATIENCE_SECONDS)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
