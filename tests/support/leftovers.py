"""What a command under test may leave behind: processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.support.patience import PATIENCE_SECONDS


def processes_in(home: Path, of: str = "") -> list[psutil.Process]:
    """Return the processes that work in a folder, or were told of it; `of`: of which program."""
    found = []
    for process in psutil.process_iter():
        try:
            told = process.cmdline()
            if any(str(home) in text for text in [process.cwd(), *told]) and of in " ".join(told):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_until(done: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        time.sleep(0.1)
