"""A night on call: the commands of docs/operations.md, as they stand, on a running resolver."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.ledger.landing import land_query
from resolver.protocol import decode_check
from resolver.protocol.names import RESUMES
from resolver.settings import Settings
from resolver.spark.running import finish_batch
from resolver.views import Filter, Ledger
from tests.support.patience import wait_until
from tests.support.time_limit import takes
from tests.support.world import Sent, World, header, headers_of

from .conftest import QUEUES, Resolving

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
#: The next check comes in an hour, unless somebody asks.
SLOW: dict[str, Any] = {"transaction_timeout_ms": 3_000, "transaction_check_interval_ms": 3_600_000}
#: The id that the page has.
ORDER = "4f1c9a2e-order"


def commands(heading: str) -> list[list[str]]:
    """Return the commands of the page below a bold heading."""
    text = PAGE.read_text(encoding="utf-8").partition(heading)[2]
    [block] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[:1]
    return [shlex.split(line) for line in block.splitlines()]


class Night:
    """The page's commands, run in the folder of the home, as an operator would."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "TXRESOLVER_BOOTSTRAP_SERVERS": world.bootstrap,
            "TXRESOLVER_TOPIC_PREFIX": world.prefix,
            "TXRESOLVER_QUEUES": str(QUEUES),
        }

    def run(self, heading: str) -> str:
        return "".join(map(self._run, commands(heading)))

    def make(self, topic: str) -> None:
        self._run(["txresolver", "topics", "create", "--topic", topic])

    def _run(self, command: list[str]) -> str:
        assert command[0] == "txresolver"
        done = subprocess.run(
            [sys.executable, "-m", "resolver", *command[1:]],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def landed(tables: Path, status: str, count: int, group: str | None = None) -> None:
    """Return once the ledger has this many transactions of a status."""
    chosen = Filter(status=status, group=group)
    wait_until(
        lambda: len(Ledger(tables=tables).transactions(chosen).to_pylist()) == count,
        pause_seconds=0.2,
    )


def asked(tables: Path, count: int) -> None:
    """Return once the ledger has this many pending transactions that were asked about."""

    def are_there() -> bool:
        rows = Ledger(tables=tables).pending().to_pylist()
        return len([row for row in rows if row["checks"] > 0]) == count

    wait_until(are_there, pause_seconds=0.2)


@pytest.fixture
def tables(spark: SparkSession, world: World, tmp_path: Path) -> Path:
    return tmp_path / ".txresolver" / "tables"


@takes(900, "a night of operations, each of which lands")
def test_the_night_is_played_from_the_page(
    spark: SparkSession, world: World, resolving: Resolving, tables: Path, tmp_path: Path
) -> None:
    night = Night(tmp_path, world)
    settings = Settings(
        bootstrap_servers=world.bootstrap, topic_prefix=world.prefix, queues=QUEUES,
        land_trigger_interval_ms=300, **SLOW,
    )  # fmt: skip
    with resolving(**SLOW):
        land = land_query(spark, settings, tables, tmp_path / "land")
        try:
            _play(night, world, tables)
            assert not land.exception()
        finally:
            finish_batch(land, 30)
        last = land_query(spark, settings, tables, tmp_path / "land", available_now=True)
        assert last.awaitTermination(60)
    report = audited(spark, settings, str(tables), with_topics=False, examples=10)
    assert report.holds, "\n".join(report.lines())


def _play(night: Night, world: World, tables: Path) -> None:
    pending = world.send_halves(world.message(body=b"%d" % number) for number in range(50))
    order = world.send_half(transaction_id=ORDER)
    world.checks(51)
    asked(tables, 51)

    said = night.run("agent is down, and 50 transactions are pending")
    assert "orders" in said and "ask: 51 of 51 transactions" in said
    numbers = Counter(header(check, "TRANSACTION_CHECK_TIMES") for check in world.checks(102))
    assert numbers == {"1": 51, "2": 51}

    said = night.run("One order is to be committed now")
    assert "1 ended as COMMIT, by OPERATOR" in said
    assert [header(one, "HALF_OFFSET") for one in world.committed(1)] == [order.half_id]
    world.end(*pending)
    world.committed(51)

    lost = _undeliverable(world)
    landed(tables, "UNDELIVERABLE", 10)
    said = night.run("A topic was missing")
    assert "resume: 10 of 10 transactions" in said
    again = [check for check in world.checks(112) if header(check, RESUMES)]
    assert {header(check, RESUMES) for check in again} == {sent.half_id for sent in lost}
    world.end(*map(_resumed, again), from_check=True)
    assert len(world.reader("orders.shipped").until(10)) == 10

    night.make("orders.placed")
    world.end(*world.send_halves(world.message(topic="orders.placed") for _ in range(3)))
    landed(tables, "COMMIT", 64)
    said = night.run("A consumer wants yesterday again")
    assert "replay: 3 of 3 transactions" in said
    assert len(world.reader("orders.again").until(3)) == 3
    assert all(act in night.run("What was done, and by whom")
               for act in ("ask", "settle", "resume", "replay"))  # fmt: skip


def _resumed(check: Message) -> Sent:
    """Return the half of a check, as its group's agent sees it."""
    asked_about = decode_check(check.value(), headers_of(check))
    return Sent(asked_about.half, *asked_about.half_id, 0)


def _undeliverable(world: World) -> list[Sent]:
    lost = world.send_halves(world.message(topic="orders.shipped") for _ in range(10))
    world.end(*lost)
    return lost
