"""The time limit of a test ends with the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

_TESTS = """
import threading
from hypothesis import given, settings, strategies

@settings(max_examples=1, database=None)
@given(strategies.none())
def test_of_hypothesis(value):
    pass

def test_behind_it():
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    assert [timer.name for timer in timers if not timer.daemon] == []
"""


def test_no_timer_is_left_that_would_end_the_process_later(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(_TESTS)
    options = ["-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "tests.support.time_limit"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
