"""Several resolvers on the same topics: which one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from resolver.errors import MarkerMismatch, Replaced, ResolverError, SettingsError
from resolver.kafka.topics import ensure_topics
from resolver.protocol import FAST_DELIVERY, Element, Op
from resolver.resolve.job import Resolve
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.world import COMMIT, ROLLBACK, Sent, World, header

from .conftest import QUEUES, Resolving

PATIENT: dict[str, Any] = {"transaction_timeout_ms": 3_600_000}


@pytest.mark.gate
def test_a_second_resolver_is_refused_and_the_first_goes_on(
    world: World, resolving: Resolving
) -> None:
    with resolving(**PATIENT):
        world.end(world.send_half())
        world.resolutions(1)
        with pytest.raises(MarkerMismatch, match="--rebuild"), resolving("another", **PATIENT):
            pass
        world.end(world.send_half())
        assert len(world.committed(2)) == 2


@pytest.mark.gate
def test_a_rebuild_takes_over_and_doubles_nothing(
    world: World, resolving: Resolving, spark: SparkSession, tmp_path: Path
) -> None:
    """Settled transactions stay as they ended; what was pending is resolved by the new one."""
    elsewhere = spark.newSession()
    first = Resolve(elsewhere, _settings(world), str(tmp_path / "first"))
    first.start()
    try:
        committed, rolled_back, pending = world.send_halves(world.message() for _ in range(3))
        world.end(committed)
        world.end(rolled_back, state=ROLLBACK)
        world.resolutions(2)
        with resolving("second", rebuild=True, **PATIENT) as second:
            with_outcomes = second.query.runId
            while second.query.runId == with_outcomes:
                assert not second.wait(0.1)
            wait_until(lambda: first.wait(0.5))
            with pytest.raises(Replaced):
                first.raise_failure()
            world.end(pending)
            world.end(rolled_back)
            outcomes = world.outcomes(3)
            (refused,) = world.quarantined(1)
    finally:
        first.stop(0)

    with resolving("second", **PATIENT):
        world.end(world.send_half())
        assert len(world.committed(3)) == 3
    assert outcomes == {
        committed.half.transaction_id: "COMMIT",
        rolled_back.half.transaction_id: "ROLLBACK",
        pending.half.transaction_id: "COMMIT",
    }
    assert header(refused, "REASON") == "CONFLICTING_END"
    assert len(world.resolutions(4)) == 4


def test_a_rebuild_knows_which_messages_their_producers_have_delivered(
    world: World, resolving: Resolving
) -> None:
    """It reads the ops again: one of a fast commit says nothing new, another one is refused."""
    fast_id = world.names.fast_id(world.group, "a")
    with resolving("first", **PATIENT):
        fast, plain = world.send_half(fast_id=fast_id), world.send_half()
        world.end(plain)
        _deliver(world, fast)
        outcomes = {said.transaction_id: said.delivery for said in world.resolutions(2)}
    assert outcomes == {fast.half.transaction_id: FAST_DELIVERY, plain.half.transaction_id: None}
    with resolving("second", rebuild=True, **PATIENT):
        _deliver(world, fast)
        _deliver(world, plain)
        (refused,) = world.quarantined(1)
    assert header(refused, "REASON") == "DELIVERED_TWICE"
    assert len(world.committed(1)) == 1


def _deliver(world: World, sent: Sent) -> None:
    """Send an op that says that the message is in its topic, where nobody has put it."""
    element = Element(0, sent.offset, sent.half.transaction_id)
    op = Op(COMMIT, world.group, (element,), delivered=True)
    world.produce([op.to_record(world.names.op, sent.queue)])


def test_a_rebuild_that_was_cut_short_stays_a_rebuild(
    world: World, resolving: Resolving, spark: SparkSession, tmp_path: Path
) -> None:
    """Killed after it took over, before its first batch: no start of it delivers all again."""
    with resolving("first", **PATIENT):
        world.end(world.send_half())
        world.resolutions(1)
    _cut_short(spark, world, tmp_path / "second")
    with resolving("second", **PATIENT):
        world.end(world.send_half())
        world.resolutions(2)
    assert len(world.committed(2)) == 2
    assert len(world.resolutions(2)) == 2


def test_a_rebuild_that_was_cut_short_is_refused_after_another_one_took_over(
    world: World, resolving: Resolving, spark: SparkSession, tmp_path: Path
) -> None:
    """It knows nothing of what that one has delivered since."""
    _cut_short(spark, world, tmp_path / "first")
    with resolving("second", rebuild=True, **PATIENT):
        world.end(world.send_half())
        world.resolutions(1)
    refused = pytest.raises(MarkerMismatch, match="--rebuild, on a new one")
    with refused, resolving("first", rebuild=True, **PATIENT):
        pass


def test_a_rebuild_takes_no_new_half_for_one_that_is_gone(
    world: World, resolving: Resolving
) -> None:
    """The half topic was made again: other halves have the offsets of those that had ended."""
    with resolving("first", **PATIENT):
        world.end(*[world.send_half() for _ in range(3)])
        world.resolutions(3)
    world.admin.delete_topics([world.names.half])[world.names.half].result(PATIENCE_SECONDS)
    world.await_gone(world.names.half)
    ensure_topics(world.admin, _settings(world))
    before = [world.send_half() for _ in range(2)]
    with (
        pytest.raises(ResolverError, match=r"made again.*--rebuild"),
        resolving("first", **PATIENT),
    ):
        pass
    with resolving("second", rebuild=True, **PATIENT):
        world.end(*before)
        world.end(world.send_half())
        outcomes = world.outcomes(6)
        delivered = world.committed(6)
    assert len(outcomes) == len(delivered) == 6


def test_a_checkpoint_with_batches_is_no_place_for_a_rebuild(
    world: World, resolving: Resolving
) -> None:
    with resolving("first", **PATIENT):
        world.end(world.send_half())
        world.resolutions(1)
    with pytest.raises(SettingsError, match="first"), resolving("first", rebuild=True, **PATIENT):
        pass


def test_a_checkpoint_goes_on_with_another_number_of_cores(
    world: World, resolving: Resolving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resolving(**PATIENT):
        pending = [world.send_half(queue) for queue in (*range(QUEUES), *range(QUEUES))]
        world.end(world.send_half())
        world.resolutions(1)
    monkeypatch.setattr("resolver.resolve.query.tasks", lambda *_: 1)
    with resolving(**PATIENT):
        for half in pending:
            world.end(half)
        assert len(world.committed(5)) == 5


def _cut_short(spark: SparkSession, world: World, checkpoint: Path) -> None:
    """Begin a rebuild, which is killed before its first batch."""
    job = Resolve(spark, _settings(world), str(checkpoint))
    job._start_query = _killed  # type: ignore[method-assign]
    with pytest.raises(_Killed):
        job.start(rebuild=True)
    job.stop(0)


class _Killed(Exception):
    pass


def _killed(settled: object = None) -> NoReturn:
    raise _Killed


def _settings(world: World) -> Settings:
    return Settings(
        bootstrap_servers=world.bootstrap, topic_prefix=world.prefix, queues=QUEUES, **PATIENT
    )
