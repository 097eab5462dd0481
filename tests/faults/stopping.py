"""SIGINT, SIGTERM and SIGHUP: noted, and acted upon by whoever waits next."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from resolver.broker.signals import setting_on_signals


class Interrupted(Exception):
    """Told to stop."""


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """Yield an event that these signals set, for the length of the block."""
    stop_requested = threading.Event()
    with setting_on_signals(stop_requested, signal.SIGHUP):
        yield stop_requested
