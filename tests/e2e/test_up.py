"""`txresolver up` as a process: killed, stopped, doubled, replaced."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from resolver.spark.points import Point
from tests.support.commands import Command, command
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.time_limit import takes
from tests.support.world import ROLLBACK, World, header

QUEUES = 2


def _up(world: World, home: Path, *more: str) -> list[str]:
    settings = {
        "topic_prefix": world.prefix,
        "queues": QUEUES,
        "transaction_timeout_ms": 3_600_000,
        "land_trigger_interval_ms": 5_000,
    }
    sets = [f"--set={name}={value}" for name, value in settings.items()]
    servers = f"--bootstrap-servers={world.bootstrap}"
    return ["up", f"--home={home}", servers, "--verbose", *sets, *more]


def _send(world: World, count: int) -> int:
    """Send transactions: four of five commit, the others roll back; return how many commit."""
    committed = 0
    for queue in range(QUEUES):
        sent = world.send_halves((world.message() for _ in range(count // QUEUES)), queue)
        for first in range(0, len(sent), 50):
            world.end(*sent[first : first + 40])
            world.end(*sent[first + 40 : first + 50], state=ROLLBACK)
            committed += 40
    return committed


@pytest.mark.gate
@takes(500, "four starts of up")
def test_killed_three_times_with_ten_thousand_under_way_nothing_is_lost_or_doubled(
    world: World, tmp_path: Path
) -> None:
    """kill -9, first while records of an open Kafka transaction are on their way.

    The test does not wait for land: each start only has to deliver.
    """
    home = tmp_path / "home"
    arguments = _up(world, home, "--set=max_offsets_per_trigger=6000")
    with command(*arguments, log=tmp_path / "first.log") as up:
        up.until_said("delivering:")
        sent, committed = 10_000, _send(world, 10_000)
        more_sent, more_committed = _halt_inside_a_transaction(up, world)
        up.kill()
    sent, committed = sent + more_sent, committed + more_committed
    # After the commit of a batch's messages, and right after it took over.
    for moments in (("took over", Point.COMMITTED), ("took over",)):
        sent, committed = sent + 1_000, committed + _send(world, 1_000)
        with command(*arguments, log=tmp_path / f"{len(moments)}.log") as up:
            for moment in moments:
                up.until_said(moment)
            up.kill()
    with command(*arguments, log=tmp_path / "last.log") as up:
        up.until_said("delivering:")
        resolutions = world.resolutions(sent)
        delivered = world.committed(committed)
        # Killed JVMs have left some, and they are removed.
        assert len(list((home / "spark" / "tmp").glob("librocksdbjni*"))) == 1

    assert len(resolutions) == sent
    assert Counter(said.outcome.value for said in resolutions) == {
        "COMMIT": committed,
        "ROLLBACK": sent - committed,
    }
    assert Counter(header(one, "HALF_OFFSET") for one in delivered) == {
        f"{said.queue}:{said.offset}": 1 for said in resolutions if said.outcome == "COMMIT"
    }


def test_stopped_it_ends_with_0_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """With a broker of its own; a second one on its home is refused while it runs."""
    home = tmp_path / "home"
    with command("up", f"--home={home}", log=tmp_path / "up.log") as up:
        up.until_said("ready: bootstrap=127.0.0.1:")
        assert f"home={home}" in up.output()
        with command("up", f"--home={home}", log=tmp_path / "second.log") as second:
            assert second.exit_code() == 1
            assert f"process {up.process.pid} runs in home {home}" in second.output()
        below = _below(up)
        assert {"java", "sh"} < {process.name() for process in below}
        up.signal(signal.SIGINT)
        assert up.exit_code() == 0
        assert _running(below) == []
    assert {"half", "op", "resolution"} <= {path.name for path in (home / "tables").iterdir()}


@pytest.mark.parametrize("moment", ["starting Kafka", "starting Spark"])
def test_stopped_while_it_starts_it_ends_with_0_too(moment: str, tmp_path: Path) -> None:
    with command("up", f"--home={tmp_path / 'home'}", log=tmp_path / "up.log") as up:
        up.until_said(moment)
        up.signal(signal.SIGINT)
        below = _below(up)
        assert up.exit_code() == 0
        assert "stopping" in up.output()
        assert "ready" not in up.output()
        assert "Traceback" not in up.output()
        assert _running(below) == []


@pytest.mark.parametrize("job", [("up", "--home"), ("audit", "--tables")])
def test_of_a_jvm_that_does_not_start_it_says_where_to_look(
    job: tuple[str, str], tmp_path: Path
) -> None:
    name, folder = job
    wrong = "--set=spark.driver.extraJavaOptions=-Xss1"
    (tmp_path / "half" / "_delta_log").mkdir(parents=True)  # the audit looks for tables first
    with command(name, f"{folder}={tmp_path}", wrong, log=tmp_path / "up.log") as running:
        assert running.exit_code() == 2
    *_, last = running.output().splitlines()
    assert last.startswith("error: Spark's JVM does not start; ")
    assert "spark.driver.extraJavaOptions" in last
    assert "Traceback" not in running.output()


def test_replaced_by_another_home_it_exits_3(world: World, tmp_path: Path) -> None:
    first_log = tmp_path / "first.log"
    with command(*_up(world, tmp_path / "first"), log=first_log) as first:
        first.until_said("ready:")
        world.end(world.send_half())
        world.resolutions(1)
        refused = _up(world, tmp_path / "second")
        with command(*refused, log=tmp_path / "refused.log") as second:
            assert second.exit_code() == 1
            assert "--rebuild" in second.output()
        with command(*refused, "--rebuild", log=tmp_path / "second.log") as second:
            assert first.exit_code() == 3
            assert "another resolver took over" in first.output()
            second.until_said("ready:")
            world.end(world.send_half())
            assert len(world.committed(2)) == 2


def test_after_each_misfortune_it_goes_on_or_says_in_a_line_why_not(
    world: World, tmp_path: Path
) -> None:
    """Halted for longer than Kafka waits for its transaction, its JVM killed, a topic deleted."""
    limits = ("--set=kafka_transaction_timeout_ms=1000", "--set=max_offsets_per_trigger=1000")
    home = tmp_path / "home"
    with command(*_up(world, home, *limits), log=tmp_path / "up.log") as up:
        up.until_said("ready:")
        halves, committed = _halt_inside_a_transaction(up, world)
        wait_until(lambda: not world.has_open_transaction(world.names.resolution))
        up.signal(signal.SIGCONT)
        up.until_said("is not written yet")
        assert len(world.resolutions(halves)) == halves
        assert len(world.committed(committed)) == committed
        assert up.process.poll() is None
        [jvm] = [process for process in _below(up) if process.name() == "java"]
        jvm.kill()
        assert up.exit_code() == 1
    assert up.output().splitlines()[-1].startswith("error: Spark's JVM ended: ")
    assert "Traceback" not in up.output()
    assert " ERROR " not in up.output()

    with command(*_up(world, home), log=tmp_path / "next.log") as up:
        up.until_said("ready:")
        world.end(world.send_half())
        assert len(world.committed(committed + 1)) == committed + 1
        world.admin.delete_topics([world.names.half])[world.names.half].result(PATIENCE_SECONDS)
        assert up.exit_code() == 1
    *_, last = up.output().splitlines()
    # Either query may be the first to miss the topic.
    assert last.startswith(("error: the query resolve ended: ", "error: land stopped, "))
    assert "Traceback" not in up.output()
    assert "Logical Plan" not in up.output()


def _halt_inside_a_transaction(up: Command, world: World) -> tuple[int, int]:
    """Halt it when Kafka has records of a transaction that it has not begun to commit.

    Returns the halves sent, and how many of them commit.
    """
    halves, committed = 0, 0
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert time.monotonic() < until, f"no open transaction was met with {halves} halves"
        halves, committed = halves + 2_000, committed + _send(world, 2_000)
        up.until_said(Point.OPEN)
        up.signal(signal.SIGSTOP)
        is_open = world.has_open_transaction(world.names.resolution)
        if is_open and Point.WRITTEN not in up.output().rpartition(Point.OPEN)[2]:
            return halves, committed
        up.signal(signal.SIGCONT)


def _below(up: Command) -> list[psutil.Process]:
    """Return the processes below it: the broker, Spark's JVM, its workers."""
    return list(psutil.Process(up.process.pid).children(recursive=True))


def _running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running()]
