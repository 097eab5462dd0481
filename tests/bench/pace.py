"""Which transaction is to be sent next, and when."""

from __future__ import annotations

import threading
import time

from .sent_log import SentLog

_LOOK_SECONDS = 0.001


class Pace:
    """Numbers 0, 1, …: each when its time has come and few enough are on their way.

    `rate` is in transactions a second. `in_flight` limits the numbers that were handed out and are
    not visible yet, so that the sender never runs away from delivery.
    """

    def __init__(
        self, sent_log: SentLog, ended: threading.Event, rate: int | None, in_flight: int | None
    ) -> None:
        self._sent_log = sent_log
        self._rate = rate
        self._in_flight = in_flight
        self._started = time.monotonic()
        self._ended = ended
        self._lock = threading.Lock()
        self.sent = 0

    def take(self, most: int) -> range:
        """Wait for the next numbers, and return up to `most`; none once it has ended."""
        with self._lock:
            while True:
                if self._ended.is_set() or self.sent == self._sent_log.count:
                    return range(0)
                first, due = self.sent, self._due(time.monotonic() - self._started)
                if due > first:
                    self.sent = min(due, first + most)
                    return range(first, self.sent)
                time.sleep(_LOOK_SECONDS)

    def _due(self, elapsed: float) -> int:
        due = self._sent_log.count
        if self._rate is not None:
            due = min(due, int(elapsed * self._rate) + 1)
        if self._in_flight is not None:
            due = min(due, self._sent_log.delivered + self._in_flight)
        return due
