"""A source of metrics: read again and again in a thread, so that no scrape waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from ..errors import TxResolverError
from .metrics import Value

logger = logging.getLogger(__name__)

#: Share of the time that readings may take, and the longest pause in seconds. A large ledger is
#: read less often; where a reading takes longer than 6 s, the pause stays at its longest.
_MOST_SHARE, _LONGEST_SECONDS = 0.1, 60.0


class Source(threading.Thread):
    """Reads values at least `pause_seconds` apart; keeps the last ones.

    A reading that fails leaves the values as they are: their age is a metric of its own.
    """

    def __init__(self, name: str, read: Callable[[], Iterable[Value]], pause_seconds: float):
        super().__init__(name=f"txresolver-watch-{name}", daemon=True)
        self.source = name
        self.values: list[Value] = []
        self.read_at: float | None = None
        self._read = read
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._failure = ""

    def run(self) -> None:
        """Read until told to stop."""
        pause = 0.0
        while not self._stopping.wait(pause):
            began = time.monotonic()
            self._read_once()
            took = time.monotonic() - began
            pause = max(self._pause_seconds, min(took / _MOST_SHARE, _LONGEST_SECONDS))

    def stop(self) -> None:
        """Begin no other reading."""
        self._stopping.set()

    def _read_once(self) -> None:
        try:
            self.values = list(self._read())
            self.read_at, self._failure = time.time(), ""
        except Exception as error:  # Kafka, the JVM or a table is away: the next reading may do
            if not self._stopping.is_set():
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        kind = str(error) if isinstance(error, TxResolverError) else type(error).__name__
        if kind != self._failure:  # once for each failure, not for each reading
            logger.warning("figures of %s can't be read now: %s", self.source, kind)
        self._failure = kind
