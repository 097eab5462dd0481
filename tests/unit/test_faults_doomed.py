"""A doom hits whom it names, at its line or a moment after it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from resolver.spark.points import Point
from tests.faults.doomed import HIT, Doom
from tests.support.patience import wait_until

_SECONDS = 60.0
_LOGS_A_LINE = """
import logging, sys, time
from pathlib import Path
from resolver.spark.points import Point
from tests.faults.doomed import DoomHandler
log = logging.getLogger("resolver")
log.addHandler(DoomHandler(Path(sys.argv[1])))
log.setLevel(logging.DEBUG)
log.debug("batch %d: %s", 7, Point.DONE)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def logged(doom: Doom, file: Path, seconds: float = 0) -> subprocess.CompletedProcess[str]:
    """Run a process that logs a line while a doom holds, and lives on for so long."""
    doom.write(file)
    command = [sys.executable, "-c", _LOGS_A_LINE, str(file), str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


def test_it_may_hit_others_only(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    doom = Doom(Point.DONE, "none", signal.SIGSTOP, [other.pid])
    done = logged(doom, tmp_path / "doom.json")
    assert (done.returncode, done.stderr) == (0, f"{HIT}batch 7: done\n")
    wait_until(lambda: psutil.Process(other.pid).status() == psutil.STATUS_STOPPED)


@pytest.mark.parametrize("after_ms", [0, 50])
def test_it_hits_others_and_all_of_its_own(
    tmp_path: Path, other: subprocess.Popen[bytes], after_ms: float
) -> None:
    doom = Doom(Point.DONE, others=[other.pid], after_ms=after_ms)
    done = logged(doom, tmp_path / "doom.json", _SECONDS)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, f"{HIT}batch 7: done\n")
    assert other.wait(_SECONDS) == -signal.SIGKILL
