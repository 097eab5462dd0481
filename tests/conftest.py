"""What all tests share: one broker, a prefix of its own for each test, and no skips."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from resolver.broker import Broker
from tests.support import databases, time_limit
from tests.support.patience import LIMIT_SECONDS
from tests.support.secured import SecuredBroker, Users

TESTS = Path(__file__).parent
os.environ["PYTEST_TIMEOUT"] = str(LIMIT_SECONDS)  # pytest-timeout reads it

# A JVM that lives for seconds does better without its second compiler. Java then has 48 MB for
# code, and would interpret the rest.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC"
os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JVM)
# The session of many tests lives for minutes: it has both compilers, as the jobs do.
LASTING_JVM = "-XX:TieredStopAtLevel=4 -XX:ReservedCodeCacheSize=240m"

# A busy machine may take any time for an example. The gate has the same examples each time.
settings.register_profile(
    "all",
    derandomize=False,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("gate", settings.get_profile("all"), derandomize=True)
settings.load_profile("all")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker for all tests of the run; `kafka.bootstrap` is its address."""
    home: Path = tmp_path_factory.mktemp("kafka")
    with Broker(home) as broker:
        yield broker


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker that takes known users only, by TLS, and lets them do what ACLs allow."""
    users = Users(tmp_path_factory.mktemp("users"))
    home: Path = tmp_path_factory.mktemp("secured")
    with Broker(home, security=users.security()) as broker:
        yield SecuredBroker(broker, users)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[databases.Server]:
    """A real PostgreSQL for all tests of the run."""
    with databases.postgresql() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[databases.Server]:
    """A real MariaDB for all tests of the run."""
    with databases.mariadb() as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session for all tests of the run, as the jobs have it."""
    # Imported here: unit tests need neither Spark nor the second that its import takes.
    from resolver.settings import Settings
    from resolver.spark.session import spark_session

    settings = Settings(queues=2, spark={"spark.driver.extraJavaOptions": LASTING_JVM})
    home = tmp_path_factory.mktemp("spark")
    session = spark_session(settings, "tests", master="local[2]", home=home)
    yield session
    session.stop()


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test has: they share a broker, not their topics."""
    return f"t{uuid.uuid4().hex[:8]}."


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put all unit tests into the gate; other tests have the marker where they are.

    Tests with a Spark session are a group: one process has the session, which they warm up. The
    others on real parts are a group too, and so is each file of unit tests.
    """
    for item in items:
        file = item.path.relative_to(TESTS)
        if file.parts[0] == "unit":
            item.add_marker("gate")
            group = str(file)
        else:
            group = "spark" if "spark" in getattr(item, "fixturenames", ()) else "others"
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(time_limit)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skipped test is an error: nobody would notice that it never runs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if reporter and skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"error: {len(skipped)} tests were skipped")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the minutes of all processes went."""
    if hasattr(terminalreporter.config, "workerinput"):  # a process of xdist has its share only
        return
    spent = [
        (report.duration, f"{report.when:8} {report.nodeid}")
        for report in chain(*terminalreporter.stats.values())
        if isinstance(report, pytest.TestReport)
    ]
    folders: defaultdict[str, float] = defaultdict(float)
    for seconds, name in spent:
        folders["/".join(name.split()[1].split("/")[:2])] += seconds
    terminalreporter.section("minutes by folder")
    for folder, total in sorted(folders.items(), key=itemgetter(1), reverse=True):
        terminalreporter.write_line(f"{total / 60:6.1f} {folder}")
    terminalreporter.section("the ten longest, in seconds")
    longer = (one for one in spent if one[0] >= 1)
    for seconds, name in sorted(longer, reverse=True)[:10]:
        terminalreporter.write_line(f"{seconds:6.1f} {name}")
