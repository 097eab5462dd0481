"""Tells operators of revocations: a line at most once a minute, and figures for metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ..protocol import Names
from ..settings import Settings
from .revocations import Waiting

logger = logging.getLogger(__name__)

#: Seconds between two lines of a kind.
_INTERVAL_SECONDS = 60.0
#: Bounds in seconds of the times that are counted.
BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Revoked(NamedTuple):
    """The revocations since the start: their times in seconds, and the ids that wait.

    `at_most` counts the times up to each of `BOUNDS`. `forbidden` counts the ids that we may not
    revoke; they wait too.
    """

    total: int
    seconds: float
    at_most: dict[float, int]
    waiting: int
    forbidden: int


class RevocationReports:
    """Counts revocations, and says what was done and what waits; for use by several threads."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ids = Names(settings.topic_prefix).fast_ids
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._times: list[float] = []
        self._since = 0.0
        self._warn_at = 0.0
        self._count, self._seconds = 0, 0.0
        self._at_most = dict.fromkeys(BOUNDS, 0)

    def count(self, seconds: float) -> None:
        """Count a revocation; somebody has waited `seconds` for it."""
        with self._lock:
            if not self._times:
                self._since = self._monotonic()
            self._times.append(seconds)
            self._count += 1
            self._seconds += seconds
            for bound in BOUNDS:
                self._at_most[bound] += seconds <= bound

    def revoked(self, waiting: Waiting) -> Revoked:
        """Return the figures."""
        ids, forbidden = len(waiting.ids), len(waiting.forbidden)
        with self._lock:
            return Revoked(self._count, self._seconds, dict(self._at_most), ids, forbidden)

    def log(self, waiting: Waiting) -> None:
        """Log what has been counted for a minute; warn at once, and each minute, of failures."""
        now = self._monotonic()
        with self._lock:
            if now - self._since >= _INTERVAL_SECONDS:
                self._log_counts(now)
            if waiting.error and now >= self._warn_at:
                self._warn(waiting)
                self._warn_at = now + _INTERVAL_SECONDS

    def end(self) -> None:
        """Log what was counted and not logged yet."""
        with self._lock:
            self._log_counts(self._monotonic())

    def _log_counts(self, now: float) -> None:
        if self._times:
            logger.info(
                "revoked %d fast ids in %d s, each within %.1f s",
                len(self._times), now - self._since, max(self._times),
            )  # fmt: skip
            self._times.clear()

    def _warn(self, waiting: Waiting) -> None:
        if waiting.forbidden:
            logger.warning(
                "no permission to revoke %d fast ids, such as %s: halves that name them wait. "
                "Grant the resolver Write on the transactional ids %s* (`txresolver topics create "
                "--acls`)",
                len(waiting.forbidden), waiting.forbidden[0], self._ids,
            )  # fmt: skip
        else:
            logger.warning(
                "%d fast ids are not revoked yet, such as %s: halves that name them wait, and it "
                "is tried again (%s)",
                len(waiting.ids), waiting.ids[0], waiting.error,
            )  # fmt: skip
