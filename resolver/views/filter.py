"""Which rows of a view are asked for: by group, topic, status and time, and how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from ..errors import SettingsError
from .view import View

#: The statuses of a transaction; PENDING and PARKED have no outcome yet.
STATUSES = ("PENDING", "PARKED", "COMMIT", "ROLLBACK", "DISCARD", "UNDELIVERABLE")


@dataclass(frozen=True)
class Filter:
    """Rows of a view; None leaves a condition out.

    `since` is included, `until` is not; a time without a zone is in UTC. `older` is the least age.
    Raises `SettingsError` where a view has no such column.
    """

    group: str | None = None
    topic: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    older: timedelta | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in STATUSES:
            raise SettingsError(
                f"no status {self.status!r}", remedy=f"give one of {', '.join(STATUSES)}"
            )
        if self.limit is not None and self.limit < 1:
            raise SettingsError(f"limit is {self.limit}", remedy="give 1 or more")

    def where(self, view: View, now: datetime, quoted: Callable[[str], str]) -> str:
        """Return the condition in SQL, of a view that is called `v`; empty if there is none."""
        conditions = [*self._equal(view, quoted), *self._times(view, now)]
        return f"WHERE {' AND '.join(conditions)}" if conditions else ""

    def _equal(self, view: View, quoted: Callable[[str], str]) -> Iterator[str]:
        for name in ("group", "topic", "status"):
            value = getattr(self, name)
            if value is not None:
                if name not in view.columns:
                    raise SettingsError(
                        f"{view.name} can't be chosen by {name}", remedy="leave it out"
                    )
                yield f"v.{name} = {quoted(value)}"

    def _times(self, view: View, now: datetime) -> Iterator[str]:
        older = None if self.older is None else now - self.older
        for sign, time in ((">=", self.since), ("<", self.until), ("<=", older)):
            if time is not None:
                if view.time is None:
                    raise SettingsError(
                        f"{view.name} can't be chosen by time", remedy="leave it out"
                    )
                yield f"v.{view.time} {sign} timestamp_millis({milliseconds(time)})"


#: All rows.
ALL = Filter()


def milliseconds(time: datetime) -> int:
    """Return a time in ms since 1970; one without a zone is in UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    return round(aware.timestamp() * 1000)
