"""SIGINT and SIGTERM as the regular end of a command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal asked this process to stop; no `except Exception` on its way holds it up."""


@contextmanager
def until_stopped() -> Iterator[None]:
    """Let SIGINT or SIGTERM end the block, its `with` statements closed in order.

    Further ones are ignored: the first has been understood, and each stop is bounded.
    """
    before = {number: signal.signal(number, _stop) for number in STOPS}
    try:
        yield
    except Stopped:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped
