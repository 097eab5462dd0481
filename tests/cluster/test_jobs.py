"""Both jobs on a standalone cluster, submitted as docs/cluster.md has it."""

from __future__ import annotations

import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from resolver.broker import Broker
from tests.support.patience import PATIENCE_SECONDS
from tests.support.time_limit import takes
from tests.support.world import ROLLBACK, Sent, World, header

from .conftest import QUEUES, Submit, Submitting
from .process import Process
from .standalone import Cluster

#: Lines of a job that starts, runs some batches and is stopped: more on a busy machine.
MOST_LINES = 200


class Jobs:
    """Both jobs on the cluster, with all they write below a folder."""

    def __init__(self, submit: Submit, world: World, folder: Path) -> None:
        self._submit = submit
        self.world = world
        self.tables = folder / "tables"
        self.spark = folder / "resolve" / "spark"
        self._resolving = ("resolve", "--checkpoint", str(folder / "resolve"))
        checkpoint = ("--checkpoint", str(folder / "land"))
        self._landing = ("land", "--tables", str(self.tables), *checkpoint)
        self.committed: list[Sent] = []
        self.rolled_back: list[Sent] = []

    @contextmanager
    def running(self, number: int) -> Iterator[tuple[Process, Process]]:
        """Run both; they have all cores of the cluster, so at the end they are stopped.

        One starts after the other: Spark fails where a Python worker needs over 10 s to start.
        """
        with (
            self._ready(self._resolving, f"resolve-{number}") as resolve,
            self._ready(self._landing, f"land-{number}") as land,
        ):
            yield resolve, land

    @contextmanager
    def _ready(self, job: tuple[str, ...], log: str) -> Iterator[Process]:
        process = self._submit(*job, log=log)
        try:
            process.until_said("ready:")
            yield process
        finally:
            process.stop()

    @property
    def ended(self) -> Counter[str]:
        return once(self.committed + self.rolled_back)


@pytest.fixture(scope="module")
def jobs(
    kafka: Broker, submitting: Submitting, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    world = World(kafka.bootstrap, f"t{uuid.uuid4().hex[:8]}.")
    with submitting(world) as submit:
        yield Jobs(submit, world, tmp_path_factory.mktemp("jobs"))
    world.close()


@pytest.mark.gate
@takes(400, "a cluster, and the first start of both jobs, one after the other")
def test_each_is_delivered_and_lands_once(jobs: Jobs, cluster: Cluster) -> None:
    with jobs.running(1) as (resolve, land):
        assert "took over" in resolve.said()
        jobs.committed, jobs.rolled_back = send(jobs.world), send(jobs.world)
        end(jobs.world, jobs.committed, jobs.rolled_back)
        assert delivered(jobs.world, jobs.committed) == once(jobs.committed)
        # Now the batch is not over: Kafka has it, Spark's checkpoint has not.
        resolve.signal(signal.SIGTERM)
        assert resolve.exit_code() == 0, resolve.said()
        assert batches(jobs.spark / "offsets") == batches(jobs.spark / "commits")
        assert landed(jobs.tables / "half", jobs.ended, land) == jobs.ended
        # A rollback may not have been read yet, or may have landed before any commit.
        assert landed(jobs.tables / "resolution", once(jobs.committed), land) <= jobs.ended
        land.signal(signal.SIGTERM)
        assert land.exit_code() == 0, land.said()
        for job in (resolve, land):  # not the thousands of lines that Spark writes by itself
            assert "falling behind" not in job.said()
            assert len(job.said().splitlines()) < MOST_LINES, job.said()
        assert shipped_to_executors(cluster)


def test_so_it_is_over_a_restart(jobs: Jobs) -> None:
    """It goes on from the test before."""
    late = send(jobs.world)
    end(jobs.world, late, [])
    jobs.committed += late
    with jobs.running(2) as (resolve, land):
        assert "resolving:" in resolve.said()
        assert "landing:" in land.said()
        assert delivered(jobs.world, jobs.committed) == once(jobs.committed)
        assert Counter(jobs.world.outcomes(jobs.ended.total()).keys()) == jobs.ended
        for table in ("resolution", "half"):
            assert landed(jobs.tables / table, jobs.ended, land) == jobs.ended


def test_a_resolver_that_was_replaced_exits_3(submit: Submit, world: World, tmp_path: Path) -> None:
    first = submit("resolve", "--checkpoint", str(tmp_path / "first"), log="first", ship=False)
    first.until_said("resolving:")
    committed = send(world)
    end(world, committed, [])
    assert delivered(world, committed) == once(committed)

    second = ("resolve", "--rebuild", "--checkpoint", str(tmp_path / "second"))
    taking_over = submit(*second, log="second")
    assert first.exit_code() == 3
    assert "\nresolve: another resolver took over" in first.said()
    late = send(world)
    end(world, late, [])
    assert delivered(world, committed + late) == once(committed + late)
    taking_over.until_said("resolving:")


def test_a_wrong_setting_ends_a_job_with_its_name_and_the_remedy(
    submit: Submit, tmp_path: Path
) -> None:
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
    wrong = {
        "transaction_check_max=0": "transaction_check_max",
        "spark.speculation=true": "'spark.speculation' can't be set in [spark]: it changes how",
    }
    for given, said in wrong.items():
        job = submit("resolve", *checkpoint, "--set", given, log=given)
        assert job.exit_code() == 2, job.said()
        (line,) = [line for line in job.said().splitlines() if line.startswith("resolve: ")]
        assert said in line
        assert "Traceback" not in job.said()


def send(world: World, count: int = 10) -> list[Sent]:
    """Send this many halves to each queue."""
    return [
        sent
        for queue in range(QUEUES)
        for sent in world.send_halves((world.message() for _ in range(count)), queue)
    ]


def end(world: World, committed: list[Sent], rolled_back: list[Sent]) -> None:
    for queue in range(QUEUES):
        if mine := [sent for sent in rolled_back if sent.queue == queue]:
            world.end(*mine, state=ROLLBACK)
        world.end(*(sent for sent in committed if sent.queue == queue))


def once(sent: list[Sent]) -> Counter[str]:
    return Counter(one.half.transaction_id for one in sent)


def delivered(world: World, expected: list[Sent]) -> Counter[str | None]:
    """Return the transactions that were delivered, and how often, once there are this many."""
    messages = world.reader(world.real).until(len(expected), PATIENCE_SECONDS)
    return Counter(header(message, "UNIQ_KEY") for message in messages)


def batches(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.name.isdigit()}


def shipped_to_executors(cluster: Cluster) -> list[Path]:
    return list((cluster.folder / "work").glob("app-*/*/txresolver.zip"))


def landed(table: Path, expected: Counter[str], land: Process) -> Counter[str]:
    """Return the transactions of a table, and how often each, once it has all that are expected."""
    until = time.monotonic() + PATIENCE_SECONDS
    while missing := expected - (found := Counter(_transactions(table))):
        assert time.monotonic() < until, f"not in {table}: {missing}\n{land.said()}"
        time.sleep(0.2)
    return found


def _transactions(table: Path) -> list[str]:
    try:
        column = DeltaTable(table).to_pyarrow_table(columns=["transaction_id"])["transaction_id"]
    except TableNotFoundError:
        return []
    return list(column.to_pylist())
