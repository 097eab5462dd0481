"""docs/examples in Node.js and Go, written from docs/protocol.md: their records, and their answers.

Each agent starts before its check topic exists.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import create_engine

from resolver.broker import Broker
from resolver.protocol import Half, StoredHalf, TransactionStatus, check_record, decode_half
from tests.support.databases import Server
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.time_limit import takes
from tests.support.world import headers_of, position_of

from .protocol_topics import ProtocolTopics

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
#: Where scripts/setup --all-tests installs the packages of the Node.js example.
NODE_PACKAGES = ROOT / ".venv" / "examples-node" / "node_modules"
BUILD_SECONDS = 900
SIGKILL = -9
#: Set-up installs Node.js and Go into .venv where the machine has none.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
COMMIT, ROLLBACK = TransactionStatus.COMMIT_MESSAGE, TransactionStatus.ROLLBACK_MESSAGE


class Example(NamedTuple):
    """A producer and an agent in one language."""

    folder: Path
    produce: list[str]
    answer: list[str]

    def run(self, environ: dict[str, str], item: str, *crash: str) -> int:
        command = [*self.produce, item, *crash]
        return subprocess.run(
            command, cwd=self.folder, env=environ, timeout=PATIENCE_SECONDS, check=False
        ).returncode

    @contextmanager
    def answering(self, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        agent = subprocess.Popen(self.answer, cwd=self.folder, env=environ)
        try:
            yield agent
            agent.terminate()
            assert agent.wait(PATIENCE_SECONDS) == 0
        finally:
            agent.kill()
            agent.wait()


def node(folder: Path) -> Example:
    program = shutil.which("node", path=PATH)
    assert program and NODE_PACKAGES.exists(), "run scripts/setup --all-tests"
    shutil.copytree(EXAMPLES / "node", folder / "node")
    (folder / "node" / "node_modules").symlink_to(NODE_PACKAGES)
    return Example(folder / "node", [program, "producer.js"], [program, "agent.js"])


def go(folder: Path) -> Example:
    compiler = shutil.which("go", path=PATH)
    assert compiler, "run scripts/setup --all-tests"
    program = str(folder / "example")
    command = [compiler, "build", "-o", program, "."]
    subprocess.run(command, cwd=EXAMPLES / "go", check=True, timeout=BUILD_SECONDS)
    return Example(folder, [program, "produce"], [program, "answer"])


@takes(1_200, "the first build of the Go example")
@pytest.mark.parametrize("language", [node, go])
def test_an_order_is_published_and_checks_are_answered(
    language: Callable[[Path], Example],
    kafka: Broker,
    postgresql: Server,
    prefix: str,
    tmp_path: Path,
) -> None:
    example = language(tmp_path)
    topics = ProtocolTopics(kafka.bootstrap, prefix)
    topics.make()
    environ = {
        **os.environ,
        "DATABASE_URL": with_tables(postgresql.new_database()),
        "TXRESOLVER_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "TXRESOLVER_TOPIC_PREFIX": prefix,
        "GROUP": f"orders-{prefix}x",
    }
    with example.answering(environ) as agent:
        assert example.run(environ, "lamp") == 0
        lamp, at = stored(topics, b"lamp")
        assert (lamp.topic, lamp.key, lamp.group) == (
            "orders.placed",
            b"customer-7",
            environ["GROUP"],
        )
        assert answers(topics) == {lamp.transaction_id: (at.queue, at.offset, COMMIT, False)}

        assert example.run(environ, "chair", "--crash") == SIGKILL
        chair, at = stored(topics, b"chair")
        assert chair.transaction_id not in answers(topics)
        assert agent.poll() is None, "the agent has not waited for its check topic"
        topics.make(environ["GROUP"])
        topics.write(check_record(at, 1, topics.names))
        topics.check(environ["GROUP"], 1_000, queue=1)
        wanted = {
            chair.transaction_id: (at.queue, at.offset, COMMIT, True),
            "id-1-1000": (1, 1_000, ROLLBACK, True),
        }
        wait_until(lambda: wanted.items() <= answers(topics).items())
        wait_until(lambda: topics.committed(environ["GROUP"]) >= 2)
        wait_until(lambda: set(topics.announced()) == {0, 1})


def with_tables(url: str) -> str:
    """Make the examples' tables; return SQLAlchemy's URL of a socket as other drivers take it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql((EXAMPLES / "schema.sql").read_text())
    engine.dispose()
    return url.replace("postgresql+psycopg:", "postgresql:").replace("test@/", "test@localhost/")


def stored(topics: ProtocolTopics, body: bytes) -> tuple[Half, StoredHalf]:
    """Return the half with a body, and its place."""
    for record in topics.read(topics.names.half):
        headers = headers_of(record)
        half = decode_half(record.key(), record.value(), headers, topics.names.prefix)
        if half.body == body:
            at = StoredHalf(*position_of(record), 1, half, headers)
            return half, at
    raise AssertionError(f"no half has the body {body!r}")


def answers(topics: ProtocolTopics) -> dict[str, tuple[int, int, TransactionStatus, bool]]:
    """Return where and how each transaction was ended, by its id."""
    return {
        element.transaction_id: (queue, element.offset, op.state, op.from_check)
        for queue, op in topics.ops()
        for element in op.elements
    }
