"""The time limit of a test, and what happens to a test that is cut off."""

from __future__ import annotations

import psutil
import pytest

from .patience import FACTOR


def takes(seconds: int, why: str) -> pytest.MarkDecorator:
    """Give a test a time limit of its own; `why` says what takes so long."""
    assert why
    return pytest.mark.timeout(int(seconds * FACTOR))


def children() -> set[psutil.Process]:
    """Return all processes below this one."""
    return set(psutil.Process().children(recursive=True))


def end(processes: set[psutil.Process]) -> None:
    """Kill what a test that was cut off has left behind, so that it disturbs no other test."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=10)
