"""A short campaign: the long one is scripts/faults, its results are in docs/reliability.md."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.results import Results
from tests.support.leftovers import processes_in
from tests.support.patience import WHOLE_RUN_SECONDS, wait_until
from tests.support.time_limit import takes

#: In one world, as they are few: its first start, when all tables are made, takes longest.
CHOSEN = ["kill resolver and broker in the Kafka transaction", "halt resolver", "kill producers"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return a home for a campaign; what a failing test leaves there is killed."""
    yield tmp_path / "home"
    for process in processes_in(tmp_path / "home"):
        process.kill()


@takes(1_500, "two starts of a campaign, three rounds and an audit")
def test_nothing_is_lost_doubled_or_wrongly_delivered(home: Path, tmp_path: Path) -> None:
    """Interrupted while its world starts it leaves no process, and then it goes on."""
    log, results = tmp_path / "campaign.log", Results(home / "results.jsonl")
    faults = [f"--only={name}" for name in CHOSEN]
    running = campaign(home, log, "--rounds=1", "--rate=20", *faults)
    wait_until(lambda: running.poll() is not None or processes_in(home, of="faults.doomed"))
    assert running.poll() is None, log.read_text()
    running.send_signal(signal.SIGINT)
    assert running.wait(WHOLE_RUN_SECONDS) == 130, log.read_text()
    wait_until(lambda: processes_in(home) == [])  # its guards end a moment after the others

    running = campaign(home, log, "--resume")
    assert running.wait(WHOLE_RUN_SECONDS) == 0, log.read_text()
    wait_until(lambda: processes_in(home) == [])  # its guards end a moment after the others
    rounds = results.rounds()
    assert sorted(one.fault for one in rounds) == sorted(CHOSEN)
    assert all(not one.failed and one.transactions and one.proof for one in rounds)
    assert {one.world for one in rounds} == results.audited


def campaign(home: Path, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults", f"--home={home}", *arguments]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        )
