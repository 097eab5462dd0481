"""One cluster for all tests, and a Python for its nodes that has not the project."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pyspark
import pytest

from resolver.broker import Broker
from tests.support.world import World

from .process import Process
from .standalone import Cluster, page_command, running_cluster

PROJECT = Path(__file__).parents[2]
LOGGING = f"-Dlog4j2.configurationFile={PROJECT / 'resolver' / 'spark' / 'log4j2.properties'}"
QUEUES = 2

#: Submits pipelines/NAME.py with arguments; `log` names its output, else NAME. Without `ship` the
#: project is installed in the Python of all nodes.
Submit = Callable[..., Process]
Submitting = Callable[[World], AbstractContextManager[Submit]]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def node_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a node: what the project needs is installed, the project is not."""
    folder = tmp_path_factory.mktemp("node")
    venv.create(folder)
    # Of a folder that a .pth file names, the .pth files are not read: no editable install.
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "dependencies.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")
    python = folder / "bin" / "python"
    asked = "import msgpack, orjson, pyspark, pandas, importlib.util as i; print(i.find_spec('%s'))"
    for package in ("resolver", "pipelines"):
        said = subprocess.check_output([python, "-c", asked % package], cwd=folder, text=True)
        assert said == "None\n", f"{package} would be found without being shipped"
    return python


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as docs/cluster.md has it made for --py-files."""
    archive = tmp_path_factory.mktemp("shipped") / "txresolver.zip"
    made = [sys.executable, "-m", "zipfile", "-c", str(archive), "resolver", "pipelines"]
    subprocess.run(made, cwd=PROJECT, check=True)
    return archive


@pytest.fixture
def world(kafka: Broker, prefix: str) -> Iterator[World]:
    world = World(kafka.bootstrap, prefix)
    yield world
    world.close()


@pytest.fixture(scope="session")
def submitting(cluster: Cluster, node_python: Path, shipped: Path) -> Submitting:
    return partial(_submitting, cluster, node_python, shipped)


@pytest.fixture
def submit(submitting: Submitting, world: World) -> Iterator[Submit]:
    with submitting(world) as submit:
        yield submit


@contextmanager
def _submitting(
    cluster: Cluster, node_python: Path, shipped: Path, world: World
) -> Iterator[Submit]:
    """Give what submits jobs for a world's topics; what still runs at the end is ended."""
    running: list[Process] = []

    def submit(job: str, *arguments: str, log: str = "", ship: bool = True) -> Process:
        given = {
            "topic_prefix": world.prefix,
            "queues": QUEUES,
            "land_trigger_interval_ms": 2_000,
            "transaction_timeout_ms": 3_600_000,
        }
        settings = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
        names = {
            "txresolver.zip": str(shipped),
            "resolver/spark/": f"{PROJECT / 'resolver' / 'spark'}/",
            "conf/": f"{PROJECT / 'conf'}/",
            "kafka1:9092": world.bootstrap,
            "/shared": str(cluster.folder / "shared"),
        }
        page = page_command(job, names)
        process = cluster.submit(
            f"{world.prefix}{log or job}",
            node_python if ship else Path(sys.executable),
            PROJECT / "pipelines" / f"{job}.py",
            [*page.arguments, *settings, *arguments],  # of one that comes twice the last counts
            page.options if ship else ["--driver-java-options", LOGGING],
        )
        running.append(process)
        return process

    try:
        yield submit
    finally:
        for process in reversed(running):
            process.stop()
