"""Threads of the driver without which the resolver must not go on."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable

from ..errors import ResolverError, TxResolverError


class VitalThread(threading.Thread):
    """A thread whose error ends the resolver: the error goes to `failed`."""

    def __init__(self, name: str, failed: Callable[[TxResolverError], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._failed = failed

    def run(self) -> None:
        """Work until stopped; report the error that ends it otherwise."""
        try:
            self._work()
        except TxResolverError as error:
            self._failed(error)
        except Exception as error:
            self._failed(
                ResolverError(f"the thread {self.name} failed: {error!r}", remedy="start again")
            )

    @abstractmethod
    def _work(self) -> None:
        """Work until stopped."""
