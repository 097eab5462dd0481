"""The watch of resolve and of land, in one process or each in its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

try:
    from .ledger import ledger_values
    from .watch import Watch
except ModuleNotFoundError as missing:
    # The tables are read with the extra `ledger`, which says so itself.
    library = (missing.name or "").partition(".")[0]
    if library != "prometheus_client":
        raise
    from ..errors import how_to_install

    raise ModuleNotFoundError(
        f"metrics_address is set, which needs {library}: {how_to_install('metrics')}",
        name=library,
    ) from None

from pyspark.sql.streaming.query import StreamingQuery

from ..resolve.job import Resolve
from ..settings import Settings
from .live import (
    Lag,
    LastBatch,
    Positions,
    land_positions,
    land_values,
    resolve_positions,
    resolve_values,
)

#: Least seconds between two readings of what is at hand, and of the tables.
_LIVE_SECONDS, _LEDGER_SECONDS = 2.0, 10.0


class JobsWatch(Watch):
    """Serves the figures of `jobs`, resolve and land, as each of them starts."""

    def __init__(self, settings: Settings, jobs: Sequence[str]) -> None:
        super().__init__(settings.metrics_address)
        self._settings = settings
        self._positions: dict[str, Callable[[], Positions]] = {}
        for job in jobs:
            self.health.needs(job, lambda: False)

    def resolve(self, job: Resolve) -> None:
        """Watch resolve, which has been started."""
        settings = self._settings
        self.health.needs("resolve", lambda: job.has_run() and job.query.isActive)
        last = LastBatch(lambda: job.query)
        self.add("resolve", partial(resolve_values, job, last, settings), _LIVE_SECONDS)
        self._follow("resolve", partial(resolve_positions, job, settings))

    def land(self, query: StreamingQuery, tables: str) -> None:
        """Watch land, which has been started, and the tables below a folder."""
        # Spark reports on a query that has nothing to do, too.
        self.health.needs("land", lambda: query.isActive and query.lastProgress is not None)
        last = LastBatch(lambda: query)
        self.add("land", partial(land_values, last), _LIVE_SECONDS)
        self.add("ledger", partial(ledger_values, self._settings, tables), _LEDGER_SECONDS)
        self._follow("land", partial(land_positions, last))

    def _follow(self, query: str, positions: Callable[[], Positions]) -> None:
        is_first = not self._positions
        self._positions[query] = positions
        if is_first:
            self.add("kafka", Lag(self._settings, self._positions).values, _LIVE_SECONDS)
