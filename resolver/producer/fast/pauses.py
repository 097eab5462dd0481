"""Pauses after failures, and lines of the log that come once a minute for each kind."""

from __future__ import annotations

#: The second failure in a row has a pause of the first number of seconds; each further one doubles
#: it, up to the second number.
_FIRST_SECONDS, _MOST_SECONDS = 1.0, 60.0
#: Seconds for which a topic that refused a message, and a kind of failure that was told, count.
MINUTE = 60.0
#: Most names that are remembered.
_MOST_NAMES = 1_000


class Pause:
    """A pause that grows with each failure in a row. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self.until = 0.0
        self._seconds = 0.0

    def fail(self, now: float) -> None:
        """Note a failure: the first in a row makes no pause."""
        self.until = now + self._seconds
        self._seconds = min(max(_FIRST_SECONDS, 2 * self._seconds), _MOST_SECONDS)

    def succeed(self) -> None:
        """Note a success."""
        self._seconds = 0.0


class Minutes:
    """Names that count for a minute."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def begin(self, name: str, now: float) -> bool:
        """Begin a name's minute; return False if it has begun already."""
        if self.counts(name, now):
            return False
        if len(self._until) >= _MOST_NAMES:
            self._until.clear()
        self._until[name] = now + MINUTE
        return True

    def counts(self, name: str, now: float) -> bool:
        """Whether a name's minute goes on."""
        return bool(self._until) and now < self._until.get(name, 0.0)
