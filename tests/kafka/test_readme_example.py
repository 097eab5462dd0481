"""README's example, run against a real broker: its half and its op arrive, its order is placed."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from resolver import TransactionProducer, TransactionStatus
from resolver.broker import Broker
from resolver.kafka import admin_client
from resolver.producer_base import ProducerBase
from resolver.protocol import Half, Names, Op, decode_half, decode_op
from resolver.settings import Settings
from resolver.topics import ensure_topics

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_example_places_its_orders_and_commits_their_messages(
    kafka: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix, queues=1)
    ensure_topics(admin_client(settings), settings, ["orders"])
    monkeypatch.chdir(tmp_path)
    # The example leaves the prefix to its default, which other tests may be using.
    defaults = ProducerBase.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "topic_prefix", prefix)
    module = ModuleType("readme")
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(code, "README.md", "exec"), module.__dict__)  # noqa: S102

    module.main(kafka.bootstrap)
    with TransactionProducer("orders", kafka.bootstrap, module.OrderListener()) as producer:
        assert "COMMIT_MESSAGE" in module.send(producer)
    asyncio.run(module.place(["desk"], kafka.bootstrap))

    with closing(sqlite3.connect("orders.db")) as db:
        assert db.execute("SELECT item FROM orders").fetchall() == [
            ("lamp",),
            ("chair",),
            ("desk",),
        ]
        ids = [row[0] for row in db.execute("SELECT id FROM transaction_log ORDER BY rowid")]
    halves, ops = read(kafka, Names(prefix), 3)
    assert [(half.transaction_id, half.key) for half in halves] == [
        (ids[0], b"customer-7"),
        (ids[1], None),
        (ids[2], None),
    ]
    assert halves[1].headers == [("source", b"shop")]
    assert {op.state for op in ops} == {TransactionStatus.COMMIT_MESSAGE}
    assert [element.transaction_id for op in ops for element in op.elements] == ids


def read(kafka: Broker, names: Names, count: int) -> tuple[list[Half], list[Op]]:
    """Read both topics of the one queue, `count` halves and their ops."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"{names.prefix}test"})
    halves: list[Half] = []
    ops: list[Op] = []
    try:
        both = [TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in (names.half, names.op)]
        consumer.assign(both)
        while len(halves) < count or len(ops) < count:
            message = consumer.poll(30)
            assert message is not None, f"{len(halves)} halves and {len(ops)} ops arrived"
            headers = message.headers() or []
            if message.topic() == names.half:
                half = decode_half(message.key(), message.value(), headers, names.prefix)  # type: ignore[arg-type]
                halves.append(half)
            else:
                ops.append(decode_op(message.value(), headers))  # type: ignore[arg-type]
    finally:
        consumer.close()
    return halves, ops
