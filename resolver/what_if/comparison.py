"""Compares two replays of a history: by the present settings, and by others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import SettingsError
from ..resolve.planned_settings import step_settings
from ..resolve.step import StepSettings
from ..settings import Settings
from .history import History, Recorded
from .simulation import Fate, Replayed, Simulation

#: Assumptions in place of facts that can't be known.
ASSUMED = (
    "a resolver that is never late: a check goes out as soon as it is due",
    "a fast id is revoked as soon as that is wanted",
    "the n-th check of a transaction is answered as its n-th was, after the same time",
    "a check that was not sent then stays unanswered, though somebody may have answered it",
    "applications and operators do the same, at the same times",
    "Kafka takes each message that the settings permit: UNDELIVERABLE by Kafka is a COMMIT here",
)
_PENDING = "PENDING"


@dataclass(frozen=True)
class Difference:
    """A transaction that would have ended otherwise."""

    id: str
    transaction_id: str
    group: str
    now: str
    then: str


@dataclass(frozen=True)
class Comparison:
    """What is decided by the present settings (`now`), and by the others (`then`).

    `as_recorded` counts the transactions that end as in the ledger if they are replayed by the
    present settings; `otherwise` has the others. `unknown_checks` were never sent: their answers
    are not known.
    """

    changed: dict[str, tuple[Any, Any]]
    transactions: int
    as_recorded: int
    otherwise: tuple[Difference, ...]
    now: dict[str, int]
    then: dict[str, int]
    differences: tuple[Difference, ...]
    unknown_checks: int

    def as_json(self) -> dict[str, Any]:
        """Return the comparison in JSON's types."""
        return {
            "changed": {name: list(both) for name, both in self.changed.items()},
            "transactions": self.transactions,
            "as_recorded": self.as_recorded,
            "otherwise": [asdict(difference) for difference in self.otherwise],
            "now": self.now,
            "then": self.then,
            "differences": [asdict(difference) for difference in self.differences],
            "unknown_checks": self.unknown_checks,
            "assumed": list(ASSUMED),
        }


def compare(history: History, now: Settings, then: Settings) -> Comparison:
    """Replay a history by two settings; raises `SettingsError` if they decide alike."""
    by_now, by_then = step_settings(now), step_settings(then)
    changed = _changed(by_now, by_then)
    if not changed:
        names = ", ".join(sorted(_NAMES.values()))
        raise SettingsError(
            "nothing that decides is changed", remedy=f"give --set with one of {names}"
        )
    before, after = _replay(history, by_now), _replay(history, by_then)
    return Comparison(
        changed,
        transactions=sum(len(queue.halves) for queue in history.queues.values()),
        as_recorded=sum(
            _is_as_recorded(history.recorded.get(id_), before[id_.queue].fates.get(id_.offset))
            for id_, _ in history.halves()
        ),
        otherwise=tuple(_otherwise(history, before)),
        now=_figures(history, before),
        then=_figures(history, after),
        differences=tuple(_differences(history, before, after)),
        unknown_checks=sum(replay.unknown for replay in after.values()),
    )


#: The step's settings, and the user's settings that they come from.
_NAMES = {
    "transaction_timeout_ms": "transaction_timeout_ms",
    "transaction_check_interval_ms": "transaction_check_interval_ms",
    "transaction_check_max": "transaction_check_max",
    "file_reserved_ms": "file_reserved_hours",
    "count_unanswered_checks": "count_unanswered_checks",
    "check_backoff_max_ms": "check_backoff_max_ms",
    "reject_transaction_message": "reject_transaction_message",
    "max_checks": "max_checks_per_batch",
}


def _changed(now: StepSettings, then: StepSettings) -> dict[str, tuple[Any, Any]]:
    pairs = {
        setting.name: (getattr(now, setting.name), getattr(then, setting.name))
        for setting in fields(now)
    }
    return {name: both for name, both in pairs.items() if both[0] != both[1]}


def _replay(history: History, settings: StepSettings) -> dict[int, Replayed]:
    return {
        queue: Simulation(queue, happened, settings, history.end_ms).run()
        for queue, happened in sorted(history.queues.items())
    }


def _is_as_recorded(recorded: Recorded | None, fate: Fate | None) -> bool:
    """Whether a transaction comes out as it did; what Kafka did not take was a commit."""
    if recorded is None or fate is None:
        return recorded is None and fate is None
    if recorded.outcome == "UNDELIVERABLE":
        return fate.outcome in ("COMMIT", "UNDELIVERABLE")
    same_source = recorded.source is None or recorded.source == fate.source
    return recorded.outcome == fate.outcome and same_source


def _otherwise(history: History, replayed: dict[int, Replayed]) -> Iterator[Difference]:
    for id_, half in history.halves():
        recorded = history.recorded.get(id_)
        fate = replayed[id_.queue].fates.get(id_.offset)
        if not _is_as_recorded(recorded, fate):
            was = _PENDING
            if recorded is not None:
                was = f"{recorded.outcome} by {recorded.source}"
            yield Difference(str(id_), half.transaction_id, half.group, was, _told(fate))


def _figures(history: History, replayed: dict[int, Replayed]) -> dict[str, int]:
    """Return how many transactions end in which way, and how many checks are sent."""
    ends: Counter[str] = Counter()
    for id_, _ in history.halves():
        fate = replayed[id_.queue].fates.get(id_.offset)
        ends[fate.outcome if fate else _PENDING] += 1
    return {
        "checks sent": sum(sum(replay.checks.values()) for replay in replayed.values()),
        "ends that came too late": sum(replay.late for replay in replayed.values()),
        **{word: ends[word] for word in ("COMMIT", "ROLLBACK", "DISCARD", "UNDELIVERABLE")},
        _PENDING: ends[_PENDING],
    }


def _differences(
    history: History, before: dict[int, Replayed], after: dict[int, Replayed]
) -> Iterator[Difference]:
    for id_, half in history.halves():
        now, then = (replayed[id_.queue].fates.get(id_.offset) for replayed in (before, after))
        if _told(now) != _told(then):
            yield Difference(str(id_), half.transaction_id, half.group, _told(now), _told(then))


def _told(fate: Fate | None) -> str:
    if fate is None:
        return _PENDING
    return f"{fate.outcome} by {fate.source}" + (f", {fate.reason}" if fate.reason else "")
