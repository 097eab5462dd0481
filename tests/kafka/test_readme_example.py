"""README's example and those of docs/application.md, run against a real broker.

Their halves and ops arrive, their orders are placed.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import create_engine

from resolver import Message, TransactionProducer, TransactionStatus
from resolver.broker import Broker
from resolver.producer.producer_base import ProducerBase
from resolver.protocol import Half, Names, Op, decode_half, decode_op
from resolver.sql import SqlTransactionListener, TransactionLog
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .protocol_topics import ProtocolTopics

ROOT = Path(__file__).parents[2]
EXAMPLES = [ROOT / "README.md", ROOT / "docs" / "application.md"]


@pytest.mark.gate
def test_the_example_places_its_orders_and_commits_their_messages(
    kafka: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ProtocolTopics(kafka.bootstrap, prefix, queues=1).make("orders")
    monkeypatch.chdir(tmp_path)
    # The example leaves the prefix to its default, which other tests may be using.
    defaults = ProducerBase.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "topic_prefix", prefix)
    module = ModuleType("readme")
    text = "".join(page.read_text(encoding="utf-8") for page in EXAMPLES)
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "example", "exec"), module.__dict__)  # noqa: S102

    module.main(kafka.bootstrap)
    listener = module.OrderListener(module.engine, module.log)
    with TransactionProducer("orders", kafka.bootstrap, listener) as producer:
        assert "COMMIT_MESSAGE" in module.send(producer)
    asyncio.run(module.place_all(["desk"], kafka.bootstrap))
    module.engine.dispose()

    with closing(sqlite3.connect("orders.db")) as db:
        assert db.execute("SELECT item FROM orders").fetchall() == [
            ("lamp",),
            ("chair",),
            ("desk",),
        ]
        log = "SELECT transaction_id FROM transaction_log ORDER BY rowid"
        ids = [row[0] for row in db.execute(log)]
    halves, ops = read(kafka, Names(prefix), 3)
    assert [(half.transaction_id, half.key) for half in halves] == [
        (ids[0], b"customer-7"),
        (ids[1], None),
        (ids[2], None),
    ]
    assert halves[1].headers == [("source", b"shop")]
    assert {op.state for op in ops} == {TransactionStatus.COMMIT_MESSAGE}
    assert [element.transaction_id for op in ops for element in op.elements] == ids


@pytest.mark.parametrize("page", ["producer.md", "sql.md"])
def test_the_pages_fragments_run_in_the_program_around_them(
    page: str, kafka: Broker, prefix: str, tmp_path: Path
) -> None:
    """What the program has around a fragment is named as the page names it."""
    ProtocolTopics(kafka.bootstrap, prefix, queues=1).make("orders")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    fragments = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(fragments) == 2
    engine, log = create_engine(f"sqlite:///{tmp_path / 'orders.db'}"), TransactionLog()
    log.metadata.create_all(engine)
    listener = SqlTransactionListener(engine, log)
    with TransactionProducer("orders", kafka.bootstrap, listener, topic_prefix=prefix) as producer:
        for fragment in fragments:
            transactions = [producer.begin(Message("orders.placed", b"lamp")) for _ in range(2)]
            with ExitStack() as block:
                around = {
                    "producer": producer, "message": Message("orders.placed", b"lamp"),
                    "place_order": lambda _id: False, "engine": engine, "log": log,
                    "messages": [tx.message for tx in transactions], "tx": transactions[0],
                    "timedelta": timedelta, "TransactionLog": TransactionLog,
                    "SqlTransactionListener": SqlTransactionListener,
                }  # fmt: skip
                if "engine.begin()" not in fragment:
                    around["connection"] = block.enter_context(engine.begin())
                exec(compile(fragment, page, "exec"), around)  # noqa: S102
    engine.dispose()


def programs(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("is_there", "said"), [(True, "201 placed"), (False, "503 try again later")]
)
def test_the_program_of_the_page_on_outboxes_starts_with_and_without_kafka(
    is_there: bool,
    said: str,
    kafka: Broker,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    topics = ProtocolTopics(kafka.bootstrap, prefix, queues=1)
    topics.make("orders")
    monkeypatch.chdir(tmp_path)
    defaults = ProducerBase.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "topic_prefix", prefix)
    module = ModuleType("shop")
    (readme,), (outbox,) = (programs(ROOT / page) for page in ("README.md", "docs/outbox.md"))
    exec(compile(readme, "readme", "exec"), module.__dict__)  # noqa: S102
    module.log.metadata.create_all(module.engine)
    vars(module)["SERVERS"] = kafka.bootstrap if is_there else "127.0.0.1:1"
    exec(compile(outbox, "outbox", "exec"), module.__dict__)  # noqa: S102

    with module.producer:
        wait_until(lambda: module.order("lamp") == said)
    module.engine.dispose()
    assert bool(topics.ends()) == is_there


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
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None, f"{len(halves)} halves and {len(ops)} ops arrived"
            headers = message.headers() or []
            if message.topic() == names.half:
                half = decode_half(message.key(), message.value(), headers, names.prefix)  # type: ignore[arg-type]
                halves.append(half)
                continue
            op = decode_op(message.value(), headers)  # type: ignore[arg-type]
            if not op.announces:  # the agent of a producer that lives long enough
                ops.append(op)
    finally:
        consumer.close()
    return halves, ops
