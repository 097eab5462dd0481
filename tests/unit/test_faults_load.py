"""What the load sends, and where that belongs."""

from __future__ import annotations

import json
import random
from pathlib import Path

from resolver.producer.message import Message
from tests.faults.load import IMMUNITY_SECONDS, PARTITIONS, Fate, partition_of, random_message
from tests.faults.partitioner import java_partition

VECTORS = json.loads(
    (Path(__file__).parents[2] / "docs" / "protocol-vectors.json").read_text(encoding="utf-8")
)["partitions"]["keys"]


def test_keys_belong_where_java_puts_them() -> None:
    for vector in VECTORS:
        key = vector["key"]
        as_bytes = bytes.fromhex(key["hex"]) if isinstance(key, dict) else key.encode()
        for partitions, expected in vector["partitions"].items():
            assert java_partition(as_bytes, int(partitions)) == expected


def test_a_message_belongs_where_it_says_else_where_its_key_does() -> None:
    key, elsewhere = b"customer-7", (java_partition(b"customer-7", PARTITIONS) + 1) % PARTITIONS
    assert partition_of(Message("t", b"", key, real_qid=elsewhere)) == elsewhere
    assert partition_of(Message("t", b"", key)) == java_partition(key, PARTITIONS)
    assert partition_of(Message("t", b"")) is None


def test_messages_are_ordered_by_some_keys() -> None:
    chance = random.Random(1)  # noqa: S311
    messages = [random_message(Fate.COMMIT, chance, keys=3) for _ in range(1_000)]
    customers = {b"customer-0", b"customer-1", b"customer-2"}
    assert {one.queue_key for one in messages} >= {None, *customers}
    assert {one.ordering_key for one in messages} == {None, *customers}
    assert {one.key for one in messages} >= {None, *customers}


def test_some_choose_their_partition_and_some_have_an_immunity_of_their_own() -> None:
    chance = random.Random(1)  # noqa: S311
    messages = [random_message(Fate.COMMIT, chance) for _ in range(1_000)]
    chosen = {one.real_qid for one in messages}
    assert chosen == {None, *range(PARTITIONS)}
    assert {one.check_immunity_seconds for one in messages} == {None, IMMUNITY_SECONDS}
    late = [random_message(Fate.TOO_LATE, chance) for _ in range(100)]
    assert {one.check_immunity_seconds for one in late} == {IMMUNITY_SECONDS}
