"""SIGINT, SIGTERM and SIGHUP: noted, and heeded by whoever waits next."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Told to stop."""


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """Set the event at a signal, for the length of the block."""
    told = threading.Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        told.set()

    before = {number: signal.signal(number, note) for number in _STOPS}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
