"""Checks and the clock: backlogs, idle topics, ops far ahead."""

from __future__ import annotations

import re
import time
from pathlib import Path
from threading import Semaphore
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy.exc import IntegrityError

from resolver import Message, TransactionAgent, TransactionListener
from resolver.broker import Broker
from resolver.protocol import Element, Op, TransactionStatus
from resolver.resolve.job import Resolve
from resolver.settings import Settings
from tests.faults.clock import clock_environment, set_clock
from tests.support.patience import FACTOR, PATIENCE_SECONDS
from tests.support.world import COMMIT, ROLLBACK, Sent, World, header

from .conftest import QUEUES, Resolving

HOUR_MS = 3_600_000
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

FAST: dict[str, Any] = {"transaction_timeout_ms": 1_000, "transaction_check_interval_ms": 60_000}


@pytest.mark.gate
def test_no_check_where_the_op_was_stored_in_time_however_late_it_is_read(
    world: World, resolving: Resolving
) -> None:
    """A backlog, long overdue by the clock, and a small limit per batch."""
    with resolving("first"):
        pass
    halves = 300
    in_time = FAST | {"transaction_timeout_ms": int(5_000 * FACTOR)}
    for _ in range(halves // 50):
        for queue in (0, 1):
            sent = world.send_halves((world.message() for _ in range(25)), queue)
            world.produce(
                Op(
                    COMMIT, world.group, (Element(0, one.offset, one.half.transaction_id),)
                ).to_record(world.names.op, queue)
                for one in sent
            )
    lone = world.send_half()
    _let_pass(lone.stored_at_ms + in_time["transaction_timeout_ms"])

    with resolving("first", max_offsets_per_trigger=60, **in_time):
        outcomes = world.outcomes(halves)
        checks = world.checks(1)

    assert set(outcomes.values()) == {"COMMIT"}
    assert [header(check, "HALF_OFFSET") for check in checks] == [lone.half_id]


def test_checks_go_out_on_idle_topics_also_after_a_restart(
    world: World, resolving: Resolving
) -> None:
    with resolving(**FAST):
        before = world.send_half()
        (check,) = world.checks(1)
        assert header(check, "HALF_OFFSET") == before.half_id
        assert check.timestamp()[1] > before.stored_at_ms + FAST["transaction_timeout_ms"]
    while_stopped = world.send_half(queue=1)
    _let_pass(while_stopped.stored_at_ms + FAST["transaction_timeout_ms"])
    with resolving(**FAST):
        checks = world.checks(2)
    assert {header(check, "HALF_OFFSET") for check in checks} == {
        before.half_id,
        while_stopped.half_id,
    }


def test_checks_on_idle_topics_go_by_kafkas_clock_where_that_is_ahead(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is stored there that would show how late it is."""
    for name, value in clock_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    set_clock(tmp_path, HOUR_MS // 1_000)
    with Broker(tmp_path / "broker") as broker:
        world = World(broker.bootstrap, "tx.")
        settings = Settings(bootstrap_servers=broker.bootstrap, queues=QUEUES, **FAST)
        job = Resolve(spark, settings, str(tmp_path / "resolve"))
        try:
            job.start()
            half = world.send_half()
            (check,) = world.checks(1)
            job.raise_failure()
        finally:
            job.stop(30)
            world.close()
    assert half.stored_at_ms - time.time() * 1_000 > HOUR_MS - 600_000
    assert header(check, "HALF_OFFSET") == half.half_id


def test_an_op_far_ahead_of_any_half_ends_in_quarantine(world: World, resolving: Resolving) -> None:
    with resolving():
        made_up = Op(COMMIT, world.group, (Element(0, 10**12, "made-up"),))
        stored = world.produce([made_up.to_record(world.names.op, 0)])[0]
        honest = world.send_half()
        world.end(honest, state=ROLLBACK)
        (refused,) = world.quarantined(1)
        (said,) = world.resolutions(1)

    assert header(refused, "REASON") == "UNKNOWN_HALF"
    assert header(refused, "SOURCE") == f"{world.names.op}:0:{stored.offset()}"
    assert header(refused, "ELEMENT") == "0"
    assert said.outcome == "ROLLBACK"


def test_a_producers_clock_an_hour_off_changes_nothing(world: World, resolving: Resolving) -> None:
    """Of three with the same life one's clock is right, one's an hour late, one's an hour ahead."""
    with resolving(**FAST):
        committed, rolled_back, silent = (
            [_sent_by_a_clock(world, off_ms) for off_ms in (0, -HOUR_MS, HOUR_MS)] for _ in range(3)
        )
        _end_by_a_clock(world, committed, COMMIT)
        _end_by_a_clock(world, rolled_back, ROLLBACK)
        outcomes = world.outcomes(6)
        delivered = world.committed(3)
        checks = world.checks(3)

    assert {outcomes[one.half.transaction_id] for one in committed} == {"COMMIT"}
    assert {outcomes[one.half.transaction_id] for one in rolled_back} == {"ROLLBACK"}
    assert {header(one, "HALF_OFFSET") for one in checks} == {one.half_id for one in silent}
    stored_at = {one.half_id: one.stored_at_ms for one in (*committed, *silent)}
    for message in delivered:
        assert message.timestamp()[1] == stored_at[str(header(message, "HALF_OFFSET"))]
    for check in checks:
        waited = check.timestamp()[1] - stored_at[str(header(check, "HALF_OFFSET"))]
        assert waited > FAST["transaction_timeout_ms"]


@pytest.mark.gate
def test_what_is_asked_about_while_it_still_runs_is_rolled_back_on_both_sides(
    world: World, resolving: Resolving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """README's listener answers; by their producers' clocks one is an hour old, one yet to come.

    An agent without its database has used up the first checks, and the next come in an hour. They
    come at once, as the agent of the README announces itself.
    """
    example = ModuleType("readme")
    code, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)  # its database is orders.db
    exec(compile(code, "README.md", "exec"), example.__dict__)  # noqa: S102
    example.log.metadata.create_all(example.engine)
    used_up = Semaphore(0)
    bad = _agent(world, _WithoutDatabase(), end_hooks=[lambda end: used_up.release()])
    with resolving(**FAST | {"transaction_check_interval_ms": HOUR_MS}):
        running = [_sent_by_a_clock(world, off_ms) for off_ms in (0, -HOUR_MS, HOUR_MS)]
        with bad:
            assert all(used_up.acquire(timeout=PATIENCE_SECONDS) for _ in running)
        with _agent(world, example.listener):
            outcomes = world.outcomes(3)
    assert set(outcomes.values()) == {"ROLLBACK"}
    checks = {header(check, "TRANSACTION_CHECK_TIMES") for check in world.checks(6)}
    assert checks == {"1", "2"}
    for one in running:
        with pytest.raises(IntegrityError):
            example.place("lamp", one.half.transaction_id)


class _WithoutDatabase(TransactionListener):
    def check_local_transaction(self, message: Message) -> TransactionStatus:
        raise ConnectionError("the database is away")


def _agent(world: World, listener: Any, **options: Any) -> TransactionAgent:
    return TransactionAgent(
        world.group, world.bootstrap, listener, topic_prefix=world.prefix, **options
    )


def _sent_by_a_clock(world: World, off_ms: int) -> Sent:
    """Send a half as a process does whose clock is off: in its header, and as the record's time."""
    now_ms = time.time_ns() // 1_000_000 + off_ms
    half = world.message(born_at_ms=now_ms)
    record = half.to_record(world.names.half, 0)._replace(timestamp_ms=now_ms)
    (stored,) = world.produce([record])
    return Sent.of(half, stored)


def _end_by_a_clock(world: World, sent: list[Sent], state: TransactionStatus) -> None:
    for one, off_ms in zip(sent, (0, -HOUR_MS, HOUR_MS), strict=True):
        op = Op(state, world.group, (Element(0, one.offset, one.half.transaction_id),))
        now_ms = time.time_ns() // 1_000_000 + off_ms
        world.produce([op.to_record(world.names.op, 0)._replace(timestamp_ms=now_ms)])


def test_ops_that_are_read_before_their_halves_wait_for_them_in_their_order(
    world: World, resolving: Resolving
) -> None:
    """A batch reads a part of both: the first op with the first halves, and it is of the last."""
    with resolving("first"):
        pass
    sent = world.send_halves((world.message() for _ in range(200)), 0)
    order = [199, 0, 150, 198, 2]
    for half in order:
        world.end(sent[half])
    with resolving("first", max_offsets_per_trigger=20, transaction_timeout_ms=3_600_000):
        said = world.resolutions(len(order))
        delivered = world.committed(len(order))

    assert {one.outcome.value for one in said} == {"COMMIT"}
    ends = sorted((one.op_offset or 0, one.offset) for one in said)
    assert [offset for _, offset in ends] == [sent[half].offset for half in order]
    assert {header(one, "HALF_OFFSET") for one in delivered} == {
        sent[half].half_id for half in order
    }


def _let_pass(time_ms: int) -> None:
    """Return once the clock has passed a time."""
    while time.time_ns() // 1_000_000 <= time_ms:
        time.sleep(0.05)
