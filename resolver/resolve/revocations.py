"""The schedule of revocations: whose turn it is, and which records are due. It has no clock.

`revoker.py` does what the schedule says, and tells it what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Who wants an id revoked: a queue, which wants a record of it too; or the watch of op partitions.
Asker = int
#: The watch of op partitions (`stuck.py`), among the askers. It wants no record.
WATCH: Asker = -1

#: Pause in seconds after a failed attempt. It doubles with each further failure, up to the second
#: number.
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 30.0


class Order(NamedTuple):
    """An id's place in the line; the least is next. `rank` is its index in its asker's wishes.

    An id that fails must not hold up the ids behind it: whoever may write halves can make up ids.
    """

    failures: int
    since: float
    rank: int


@dataclass
class _Wish:
    """An id that somebody wants revoked.

    `not_before` is when it may be tried again. `records` has the askers, each with the time from
    which a record for it is due.
    """

    order: Order
    not_before: float
    is_revoked: bool = False
    error: str = ""
    is_forbidden: bool = False
    records: dict[Asker, float] = field(default_factory=dict)


class Waiting(NamedTuple):
    """The ids that are wanted and not revoked yet; of these, those that we may not revoke.

    `error` is the reason of the last failure, if any.
    """

    ids: list[str]
    forbidden: list[str]
    error: str


class Revocations:
    """The ids that are wanted by queues, and by the watch of op partitions.

    At most `at_once` are tried at a time. Those with the fewest failures come first, and of these
    those that are wanted longest. A queue is due a record of a revoked id each `interval_seconds`,
    until it wants the id no longer. All times are seconds of one clock.
    """

    def __init__(self, at_once: int, interval_seconds: float) -> None:
        self._at_once = at_once
        self._interval_seconds = interval_seconds
        self._wishes: dict[str, _Wish] = {}
        self._running: set[str] = set()

    def want(self, wanted: Mapping[Asker, Sequence[str]], now: float) -> None:
        """Take all that these askers want now, the oldest wish first; the others' wishes stay."""
        for asker, ids in wanted.items():
            self._withdraw(asker, set(ids))
            for rank, fast_id in enumerate(ids):
                wish = self._wishes.setdefault(fast_id, _Wish(Order(0, now, rank), now))
                wish.records.setdefault(asker, now)

    def begin(self, now: float) -> list[str]:
        """Return the ids to try now; each is under way until `succeed` or `fail`."""
        ready = [fast_id for fast_id in self._untried() if self._wishes[fast_id].not_before <= now]
        ready.sort(key=lambda fast_id: self._wishes[fast_id].order)
        begun = ready[: self._at_once - len(self._running)]
        self._running.update(begun)
        return begun

    def succeed(self, fast_id: str, now: float) -> float | None:
        """Take an id as revoked; return for how long it was wanted, None if nobody wants it now."""
        self._running.discard(fast_id)
        wish = self._wishes.get(fast_id)
        if wish is None:
            return None
        wish.is_revoked = True
        return now - wish.order.since

    def fail(self, fast_id: str, now: float, error: str, is_forbidden: bool = False) -> None:
        """Let an id wait for its next turn."""
        self._running.discard(fast_id)
        wish = self._wishes.get(fast_id)
        if wish is None:
            return
        pause = min(_MOST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**wish.order.failures)
        wish.order = wish.order._replace(failures=wish.order.failures + 1)
        wish.not_before = now + pause
        wish.error, wish.is_forbidden = error, is_forbidden

    def records(self, now: float) -> list[tuple[int, str]]:
        """Return the queues and ids that are due a record; the next comes an interval later."""
        due = [
            (asker, fast_id)
            for fast_id, wish in self._revoked()
            for asker, due_at in wish.records.items()
            if asker != WATCH and due_at <= now
        ]
        for queue, fast_id in due:
            self._wishes[fast_id].records[queue] = now + self._interval_seconds
        return due

    def next_at(self) -> float | None:
        """Return when there is something to do; None if only an event can bring it."""
        times = [
            due_at
            for _, wish in self._revoked()
            for asker, due_at in wish.records.items()
            if asker != WATCH
        ]
        if len(self._running) < self._at_once:
            times += [self._wishes[fast_id].not_before for fast_id in self._untried()]
        return min(times, default=None)

    def waiting(self) -> Waiting:
        """Return the ids that are wanted and not revoked yet, the oldest wish first."""
        wishes = sorted(
            ((fast_id, wish) for fast_id, wish in self._wishes.items() if not wish.is_revoked),
            key=lambda item: item[1].order[1:],
        )
        errors = [wish.error for _, wish in wishes if wish.error]
        return Waiting(
            [fast_id for fast_id, _ in wishes],
            [fast_id for fast_id, wish in wishes if wish.is_forbidden],
            errors[-1] if errors else "",
        )

    def _withdraw(self, asker: Asker, kept: set[str]) -> None:
        for fast_id in self._wishes.keys() - kept:
            self._wishes[fast_id].records.pop(asker, None)
            if not self._wishes[fast_id].records:
                del self._wishes[fast_id]

    def _untried(self) -> Iterator[str]:
        return (
            fast_id
            for fast_id, wish in self._wishes.items()
            if not wish.is_revoked and fast_id not in self._running
        )

    def _revoked(self) -> Iterator[tuple[str, _Wish]]:
        return ((fast_id, wish) for fast_id, wish in self._wishes.items() if wish.is_revoked)
