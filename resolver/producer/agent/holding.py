"""Checks that an agent holds: waiting for a thread, being asked, or with their answer under way."""

from __future__ import annotations

import threading
from collections.abc import Collection

from ...protocol import Check, HalfId
from .progress import CheckPosition


class Held:
    """A check that was read. `started_at` is set when a thread asks (monotonic clock, seconds).

    `overdue` is true once the listener takes too long.
    """

    __slots__ = ("check", "overdue", "position", "started_at")

    def __init__(self, check: Check, position: CheckPosition) -> None:
        self.check = check
        self.position = position
        self.started_at = 0.0
        self.overdue = False

    @property
    def half_id(self) -> HalfId:
        return self.check.half_id


class Holding:
    """The held checks, thread-safe; of several waiting checks for one half it keeps the newest.

    One thread at a time asks about a half. While its listener is overdue, further checks of the
    half are needless: the late answer is still sent, and each check would take one more thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[HalfId, Held] = {}
        self._running: set[Held] = set()
        self._on_the_way = 0
        self._last_progress = 0.0

    def __len__(self) -> int:
        """Count the held checks: waiting, being asked, or with an answer not yet acknowledged."""
        with self._lock:
            in_time = sum(not held.overdue for held in self._running)
            return len(self._waiting) + in_time + self._on_the_way

    def put(self, held: Held) -> Held | None:
        """Hold a check; return the check that is needless now: an older one, this one, or None."""
        with self._lock:
            overdue = {running.half_id for running in self._running if running.overdue}
            if held.half_id in overdue:
                return held
            older = self._waiting.get(held.half_id)
            if older is not None and older.check.times > held.check.times:
                return held
            self._waiting[held.half_id] = held
            return older

    def take(self, now: float) -> Held | None:
        """Take the first check that may be asked."""
        with self._lock:
            busy = {held.half_id for held in self._running}
            free = (held for half_id, held in self._waiting.items() if half_id not in busy)
            held = next(free, None)
            if held is not None:
                del self._waiting[held.half_id]
                held.started_at = self._last_progress = now
                self._running.add(held)
            return held

    def finish(self, held: Held, now: float) -> bool:
        """Note that a listener returned; return False if its answer comes late.

        An answer in time is on the way until `arrived`.
        """
        with self._lock:
            self._running.discard(held)
            self._last_progress = now
            self._on_the_way += not held.overdue
            return not held.overdue

    def take_overdue(self, now: float, timeout: float) -> tuple[list[Held], list[Held]]:
        """Mark and return checks that are overdue now, and the waiting checks of the same halves.

        The waiting ones are needless now. For each overdue one, UNKNOWN counts as on the way.
        """
        with self._lock:
            late = [
                held
                for held in self._running
                if not held.overdue and now - held.started_at >= timeout
            ]
            for held in late:
                held.overdue = True
            self._on_the_way += len(late)
            behind = (self._waiting.pop(held.half_id, None) for held in late)
            return late, [held for held in behind if held is not None]

    def arrived(self) -> None:
        """Note that an answer is stored."""
        with self._lock:
            self._on_the_way -= 1

    def drop(self, partitions: Collection[int]) -> None:
        """Drop waiting checks of partitions that another member has now."""
        with self._lock:
            self._waiting = {
                half_id: held
                for half_id, held in self._waiting.items()
                if held.position.partition not in partitions
            }

    def drop_waiting(self) -> None:
        """Drop all checks that no thread asks yet: their offsets are not committed."""
        with self._lock:
            self._waiting.clear()

    def wanted(self) -> int:
        """Count the threads that could be busy: asking, or with something to ask."""
        with self._lock:
            return len(self._waiting) + len(self._running)

    def hung(
        self, now: float, threads: int, timeout: float, submitted: int, submitted_at: float
    ) -> bool:
        """Whether no thread can ask any more: each waits for a listener that is overdue.

        A caller's executor may have fewer than `threads`. Tasks then wait for a thread, the last of
        them since `submitted_at` (monotonic clock, seconds).
        """
        with self._lock:
            overdue = sum(held.overdue for held in self._running)
            if overdue == 0 or overdue < len(self._running):
                return False
            idle = now - max(self._last_progress, submitted_at)
            return overdue >= threads or (submitted > overdue and idle >= 2 * timeout)
