"""The watch of a process: its sources, its health, and the server for both."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from .. import __version__
from .health import Health
from .metrics import Value, families
from .server import Server
from .source import Source

logger = logging.getLogger(__name__)

#: Time in seconds in which the readings under way may end.
_REST_SECONDS = 5.0

Self = TypeVar("Self", bound="Watch")


class Watch:
    """Serves what its sources read, at `address`, for the length of a `with` block."""

    def __init__(self, address: str) -> None:
        self.health = Health()
        self._sources: list[Source] = []
        self._at_hand: list[Callable[[], Iterable[Value]]] = []
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        self._server = Server(address, registry, self.health)
        logger.info("metrics: %s/metrics", self._server.url)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def add(self, name: str, read: Callable[[], Iterable[Value]], pause_seconds: float) -> None:
        """Begin to read a source."""
        source = Source(name, read, pause_seconds)
        self._sources.append(source)
        source.start()

    def show(self, values: Callable[[], Iterable[Value]]) -> None:
        """Show values that cost nothing: they are taken at each scrape."""
        self._at_hand.append(values)

    def rest(self) -> None:
        """Read no more: the jobs end. The last figures are still served.

        Readings that take long are left alone: the jobs need the time for their last batch.
        """
        for source in self._sources:
            source.stop()
        give_up_at = time.monotonic() + _REST_SECONDS
        for source in self._sources:
            source.join(max(0.0, give_up_at - time.monotonic()))

    def collect(self) -> Iterable[Metric]:
        """Return the families; the registry calls this at each scrape."""
        return families(self._values())

    def _values(self) -> Iterator[Value]:
        yield Value("txresolver_build_info", (__version__,), 1)
        for source in self._sources:
            if source.read_at is not None:
                read_at = source.read_at
                yield Value("txresolver_figures_timestamp_seconds", (source.source,), read_at)
            yield from source.values
        for values in self._at_hand:
            yield from values()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()
        self._server.stop()
