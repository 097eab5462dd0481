"""docs/web.md as it stands: each server takes an order, and is ended while its op still waits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import Engine, create_engine, text

from resolver.broker import Broker
from tests.support.databases import Server
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .protocol_topics import ProtocolTopics

PAGE = (Path(__file__).parents[2] / "docs" / "web.md").read_text(encoding="utf-8")
PORTS = {"gunicorn": "8000", "uvicorn": "8001"}


def programs() -> dict[str, str]:
    """Return the page's programs by their names."""
    return dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))


def commands(word: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(word)]


class Shop(NamedTuple):
    """A folder with the page's programs, its environment, its database and its topics."""

    folder: Path
    environ: dict[str, str]
    engine: Engine
    topics: ProtocolTopics

    @contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                ["/bin/bash", "-c", f"exec {command}"],
                cwd=self.folder, env=self.environ, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) in (0, -signal.SIGTERM), self.said()
        finally:
            process.kill()
            process.wait()

    def until_ordered(self, process: subprocess.Popen[bytes], port: str) -> None:
        """Order a lamp, once the server listens."""

        def is_ordered() -> bool:
            assert process.poll() is None, self.said()
            return post(port) == 201

        wait_until(is_ordered)

    def run(self, command: str) -> None:
        subprocess.run(
            ["/bin/bash", "-c", command], cwd=self.folder, env=self.environ, check=True,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip

    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def orders(self) -> list[str]:
        with self.engine.connect() as connection:
            return [*connection.execute(text("SELECT item FROM orders")).scalars()]

    def ends(self) -> dict[str, str]:
        """Return the state of each op about this shop's transactions."""
        with self.engine.connect() as connection:
            ids = {
                *connection.execute(text("SELECT transaction_id FROM transaction_log")).scalars()
            }
        ops = self.topics.ops()
        return {
            element.transaction_id: op.state.value
            for _, op in ops
            for element in op.elements
            if element.transaction_id in ids
        }


@pytest.fixture
def shop(kafka: Broker, postgresql: Server, tmp_path: Path) -> Iterator[Shop]:
    topics = ProtocolTopics(kafka.bootstrap, "tx.")
    topics.make("orders")
    for name, program in programs().items():
        # Ops wait for a minute: only a close sends them before.
        (tmp_path / name).write_text(program.replace("listener)", "listener, op_linger_ms=60_000)"))
    url = postgresql.new_database()
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DATABASE_URL": url,
        "TXRESOLVER_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "CELERY_BROKER_URL": f"sqla+sqlite:///{tmp_path / 'celery.db'}",
    }
    engine = create_engine(url)
    made = Shop(tmp_path, environ, engine, topics)
    made.run(commands("python shop.py")[0])
    yield made
    engine.dispose()


def post(port: str) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/orders",
        data=b'{"item": "lamp"}',
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
            return int(answer.status)
    except urllib.error.HTTPError:
        raise
    except OSError:  # it does not listen yet
        return 0


def test_flask_under_gunicorn(shop: Shop) -> None:
    with shop.running(commands("gunicorn")[0]) as server:
        shop.until_ordered(server, PORTS["gunicorn"])
        assert shop.orders() == ["lamp"]
        assert shop.ends() == {}, "the op waits for the close"
    assert [*shop.ends().values()] == ["COMMIT_MESSAGE"], shop.said()


def test_fastapi_under_uvicorn(shop: Shop) -> None:
    with shop.running(commands("uvicorn")[0]) as server:
        shop.until_ordered(server, PORTS["uvicorn"])
        assert shop.orders() == ["lamp"]
        assert shop.ends() == {}, "the op waits for the close"
    assert [*shop.ends().values()] == ["COMMIT_MESSAGE"], shop.said()


def test_celery(shop: Shop) -> None:
    shop.run("python -c 'import tasks; tasks.place_order.delay(\"lamp\")'")
    with shop.running(commands("celery")[0]):
        wait_until(shop.orders)
    assert [*shop.ends().values()] == ["COMMIT_MESSAGE"], shop.said()
