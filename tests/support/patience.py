"""How long tests wait for what must happen: one setting, longer on a slow machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds of the loop on each core of an idle machine with two cores, of those that run the gate.
_USUAL_SECONDS = 0.25
_LOOP = """
import time
begun = time.perf_counter()
total = 0
for number in range(2_000_000):
    total += number & 7
print(time.perf_counter() - begun)
"""


def slowness() -> float:
    """Return how many times longer than usual a fixed loop takes, on all cores at once; 1 or more.

    So it also tells of a core that something else keeps busy.
    """
    command = [sys.executable, "-c", _LOOP]
    loops = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(os.cpu_count() or 1)
    ]
    slowest = max(float(loop.communicate()[0]) for loop in loops)
    return round(min(max(slowest / _USUAL_SECONDS, 1.0), 10.0), 1)


# Measured once: workers of pytest and commands under test inherit it.
FACTOR = float(os.environ.get("TEST_PATIENCE") or slowness())
os.environ["TEST_PATIENCE"] = str(FACTOR)
#: Seconds until a test is cut off. scripts/test sets 180 for the gate.
LIMIT_SECONDS = int(float(os.environ.get("TEST_LIMIT_SECONDS", "400")) * FACTOR)
#: Seconds until a condition must hold, before the test is cut off: so the wait says what it waited
#: for. Waiting costs time only where a test fails.
PATIENCE_SECONDS = int(0.8 * LIMIT_SECONDS)
#: Time-out of a producer's sends, in ms: a busy machine is no reason to fail.
SEND_TIMEOUT_MS = 60_000
#: Seconds until a whole demo or campaign must have ended.
WHOLE_RUN_SECONDS = 3 * PATIENCE_SECONDS


def wait_until(
    condition: Callable[[], T | None],
    seconds: float = PATIENCE_SECONDS,
    pause_seconds: float = 0.05,
) -> T:
    """Wait until a condition holds, and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (seen := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}, {seen!r}"
        time.sleep(pause_seconds)
    return seen
