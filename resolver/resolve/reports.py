"""Tells operators of running checks and queues: a line for each, at most once a minute.

If none of a group's checks is answered, a warning names the group: nobody may be there to answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .figures import QueueFigures
from .step import CheckEvent

logger = logging.getLogger(__name__)

#: Seconds between two lines about one group or one queue.
_INTERVAL_SECONDS = 60.0
#: Most groups that are told apart: a half may name any group. All others count as one.
_MOST_GROUPS = 50
_OTHERS = "(other groups)"
_ANSWERS = (CheckEvent.COMMIT, CheckEvent.ROLLBACK, CheckEvent.UNKNOWN)


@dataclass
class _Group:
    """Events of a group's checks since a time, by the monotonic clock in seconds."""

    since: float
    counts: Counter[CheckEvent] = field(default_factory=Counter)


@dataclass
class _Queue:
    """The last figures of a queue, and its duplicates since a time."""

    since: float
    last: QueueFigures
    duplicates: int = 0


class Reports:
    """Adds up the figures of batches and logs them; for use by several threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        self._queues: dict[int, _Queue] = {}
        self._last: dict[int, QueueFigures] = {}

    def take(self, figures: Iterable[QueueFigures]) -> None:
        """Take the figures of a batch that was delivered."""
        now = self._monotonic()
        with self._lock:
            for queue_figures in figures:
                self._last[queue_figures.queue] = queue_figures
                known = self._queues.setdefault(queue_figures.queue, _Queue(now, queue_figures))
                known.last = queue_figures
                known.duplicates += queue_figures.duplicates
                for (group, event), count in queue_figures.check_counts.items():
                    self._group(group, now).counts[event] += count

    def last(self) -> list[QueueFigures]:
        """Return the last figures of each queue that had a batch since the start."""
        with self._lock:
            return list(self._last.values())

    def log(self) -> None:
        """Log what has been counted for a minute; an idle queue and group say nothing."""
        self._log_since(self._monotonic() - _INTERVAL_SECONDS)

    def end(self) -> None:
        """Log what was counted and not logged yet."""
        self._log_since(self._monotonic())

    def _group(self, name: str, now: float) -> _Group:
        if name not in self._groups and len(self._groups) >= _MOST_GROUPS:
            name = _OTHERS
        return self._groups.setdefault(name, _Group(now))

    def _log_since(self, latest: float) -> None:
        with self._lock:
            now = self._monotonic()
            names = [name for name, group in self._groups.items() if group.since <= latest]
            for name in names:
                group = self._groups.pop(name)
                _log_group(name, group.counts, now - group.since)
            numbers = [number for number, queue in self._queues.items() if queue.since <= latest]
            for number in numbers:
                _log_queue(self._queues.pop(number))


def _log_group(name: str, counts: Counter[CheckEvent], seconds: float) -> None:
    answers = ", ".join(f"{counts[event]} {event.value}" for event in _ANSWERS)
    unanswered, sent = counts[CheckEvent.UNANSWERED], counts[CheckEvent.SENT]
    given_up = counts[CheckEvent.DISCARDED]
    is_silent = unanswered and not any(counts[event] for event in _ANSWERS)
    if is_silent and name != _OTHERS:
        logger.warning(
            "nobody answers for group %s: %d checks unanswered in %d s, %d sent, %d discarded. "
            "Start one of its producers, or `txresolver agent --group %s --listener MODULE:NAME`",
            name, unanswered, seconds, sent, given_up, name,
        )  # fmt: skip
        return
    logger.info(
        "checks of group %s in %d s: %d sent; answered %s; %d unanswered; %d discarded",
        name, seconds, sent, answers, unanswered, given_up,
    )  # fmt: skip


def _log_queue(queue: _Queue) -> None:
    figures = queue.last
    watermark_ms = figures.watermark_ms
    delay_ms = 0 if watermark_ms is None else max(0, figures.now_ms - watermark_ms)
    logger.debug(
        "after check: queue %d, half offset %d, op offset %d (%d left), watermark %d ms "
        "behind, %d pending, %d duplicates",
        figures.queue, figures.half_offset, figures.op_offset, figures.ops_left, delay_ms,
        figures.pending, queue.duplicates,
    )  # fmt: skip
