"""The health of a process: alive, and ready to do its work."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds after which a loop that did not come round counts as hung. A batch runs beside it.
_HUNG_SECONDS = 120.0


class Health:
    """Says why a process is not alive or not ready; an empty text where it is."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._beat_at: float | None = None
        self._parts: dict[str, Callable[[], bool]] = {}

    def needs(self, part: str, is_ready: Callable[[], bool]) -> None:
        """Let readiness depend on a part."""
        self._parts[part] = is_ready

    def beat(self) -> None:
        """Note that the main loop has come round."""
        self._beat_at = self._monotonic()

    def not_live(self) -> str:
        """Return why the process should be started again."""
        if self._beat_at is None:  # it starts; a start that hangs ends by itself
            return ""
        seconds = self._monotonic() - self._beat_at
        return f"the main loop hangs for {seconds:.0f} s" if seconds > _HUNG_SECONDS else ""

    def not_ready(self) -> str:
        """Return what is not ready."""
        missing = [part for part, is_ready in self._parts.items() if not _is(is_ready)]
        return f"not ready: {', '.join(missing)}" if missing else self.not_live()


def _is(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except Exception:  # the JVM or Kafka is gone
        return False
