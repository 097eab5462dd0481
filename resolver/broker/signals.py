"""SIGINT and SIGTERM as the regular end of a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], None]


class Stopped(BaseException):
    """A signal asked this process to stop; no `except Exception` on its way catches it."""


@contextmanager
def until_stopped() -> Iterator[None]:
    """Let SIGINT or SIGTERM end the block; its `with` statements close in order.

    Further signals are ignored: one is enough, and each stop is bounded.
    """
    with _handled(STOPS, _stop), suppress(Stopped):
        yield


def set_on_signals(event: threading.Event) -> None:
    """Let SIGINT and SIGTERM set the event, for as long as the process lives."""
    for number in STOPS:
        signal.signal(number, _setting(event))


@contextmanager
def setting_on_signals(event: threading.Event, *more: signal.Signals) -> Iterator[None]:
    """Let SIGINT, SIGTERM and more signals set the event, for the length of the block."""
    with _handled((*STOPS, *more), _setting(event)):
        yield


def _setting(event: threading.Event) -> _Handler:
    def note(_number: int, _frame: FrameType | None) -> None:
        event.set()

    return note


@contextmanager
def _handled(numbers: Iterable[signal.Signals], handler: _Handler) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped
