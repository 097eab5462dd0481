"""`txresolver demo` as a user runs it: it ends with the comparison, and leaves no process."""

from __future__ import annotations

import re
import shlex
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.commands import Command, command
from tests.support.leftovers import processes_in
from tests.support.patience import WHOLE_RUN_SECONDS, wait_until
from tests.support.time_limit import takes

HOLDS = re.compile(r"The comparison holds: each of the ([\d,]+) committed orders was delivered")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return a home for a demo; what a failing test leaves there is killed."""
    yield tmp_path / "home"
    for process in processes_in(tmp_path / "home"):
        process.kill()


def demo(home: Path, log: Path, *options: str) -> Command:
    return Command("demo", "--home", str(home), *options, log=log)


@takes(900, "three demos, and an audit of them all")
def test_stopped_and_killed_it_leaves_no_process_and_goes_on_to_the_comparison(
    home: Path, tmp_path: Path
) -> None:
    """All in one home: what was under way when the others ended is in the comparison too."""
    with command("demo", "--home", str(home), log=tmp_path / "stopped.log") as running:
        running.until_said("orders a second")
        running.signal(signal.SIGINT)
        assert running.exit_code() == 130
        assert "Interrupted" in running.output()
        assert processes_in(home) == []
    with command("demo", "--home", str(home), log=tmp_path / "killed.log") as running:
        running.until_said("orders a second")
        second = demo(home, tmp_path / "second.log")
        assert second.exit_code() == 1
        assert f"process {running.process.pid} shows a demo in home {home}" in second.output()
        running.kill()
        wait_until(lambda: processes_in(home) == [])
    orders = run(home, tmp_path / "last.log", 15)
    assert orders > 300
    rows = landed(home)
    assert rows["COMMIT"] == orders
    assert min(rows["ROLLBACK"], rows["DISCARD"]) > 0
    with closing(sqlite3.connect(home / "shop" / "orders.db")) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (orders,)
    audited = named_audit((tmp_path / "last.log").read_text(), tmp_path)
    assert (audited.exit_code(), "The audit holds." in audited.output()) == (0, True), (
        audited.output()
    )
    assert "warning" not in audited.output()
    with command("audit", f"--home={home}", log=tmp_path / "unsaid.log") as unsaid:
        unsaid.until_said("decides by transaction_timeout_ms=1500 (here 6000)")


def named_audit(said: str, folder: Path) -> Command:
    """Run the audit that a demo names at its end."""
    named = re.search(r"^Audit: +\S+txresolver (audit .*)$", said, re.MULTILINE)
    assert named, said[-3_000:]
    return Command(*shlex.split(named[1]), log=folder / "audit.log")


def run(home: Path, log: Path, seconds: int) -> int:
    """Run a demo to its end; return how many orders its comparison was about."""
    running = demo(home, log, "--seconds", str(seconds))
    assert running.process.wait(WHOLE_RUN_SECONDS) == 0, running.output()[-3_000:]
    holds = HOLDS.search(running.output())
    assert holds, running.output()[-3_000:]
    assert "\x1b" not in running.output()
    assert processes_in(home) == []
    return int(holds[1].replace(",", ""))


def landed(home: Path) -> dict[str, int]:
    """Return how many transactions the tables know by outcome."""
    table = DeltaTable(home / "tables" / "resolution").to_pandas(columns=["outcome"])
    return {str(outcome): int(count) for outcome, count in table["outcome"].value_counts().items()}


@pytest.mark.gate
def test_interrupted_while_it_starts_it_leaves_no_process(home: Path, tmp_path: Path) -> None:
    with command("demo", "--home", str(home), log=tmp_path / "demo.log") as running:
        wait_until(lambda: processes_in(home, "kafka.Kafka"))
        running.signal(signal.SIGINT)
        assert running.exit_code() == 130
        assert "Interrupted" in running.output()
        assert processes_in(home) == []
