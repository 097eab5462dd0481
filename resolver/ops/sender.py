"""Sends ops in the background: nobody waits for them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any

from ..connection import Connection
from .pack import OnStored, Pack, Packer, PackKey

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.05


class OpSender:
    """Packs the ends of a group's halves and sends them from a thread of its own.

    An op that could not be sent is only logged: the half is checked, and the answer repairs it.
    Whoever must know gives `on_stored`, which one of the threads calls, without waiting.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        op_topic: str,
        op_max_bytes: int = 4096,
        op_linger_ms: int = 10,
    ) -> None:
        self._connection = connection
        self._group = group
        self._topic = op_topic
        self._packer = Packer(group, op_max_bytes, op_linger_ms / 1000)
        self._ready: deque[Pack] = deque()
        self._changed = threading.Condition()
        self._lingering = False
        self._closing = False
        self._done = False
        self._thread = threading.Thread(
            target=self._run, name=f"txresolver-ops-{group}", daemon=True
        )
        self._thread.start()

    def send(
        self, key: PackKey, offset: int, transaction_id: str, on_stored: OnStored | None = None
    ) -> None:
        """Send an end with others of the same key, within the linger time; returns at once."""
        with self._changed:
            if self._done or not self._thread.is_alive():
                _log.warning("an end of group %s came after the close; it is not sent", self._group)
                return
            full = self._packer.add(key, offset, transaction_id, time.monotonic(), on_stored)
            if full is not None:
                self._ready.append(full)
            if full is not None or not self._lingering:
                self._lingering = True
                self._changed.notify()

    def close(self, timeout: float) -> None:
        """Send what is left; acknowledgements are the connection's to wait for."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                packs = self._next()
                if packs is None:
                    return
            for pack in packs:
                self._produce(pack)

    def _next(self) -> list[Pack] | None:
        """Wait for packs to send; None when all is sent and the sender closes."""
        while True:
            now = time.monotonic()
            packs = [*self._ready, *self._packer.take_due(now)]
            if self._closing:
                packs += self._packer.take_all()
            self._ready.clear()
            due_at = self._packer.next_due_at()
            self._lingering = due_at is not None
            if packs:
                return packs
            if self._closing:
                self._done = True  # the thread may live on for a moment; it sends nothing more
                return None
            self._changed.wait(None if due_at is None else due_at - now)

    def _produce(self, pack: Pack) -> None:
        def stored(error: Any, _message: Any) -> None:
            self._stored(pack, error)

        record = pack.to_record(self._topic)
        while True:
            try:
                self._connection.produce(record, stored)
                return
            except BufferError:
                time.sleep(_RETRY_SECONDS)  # the local queue is full of halves; it empties itself
            except Exception as error:
                self._stored(pack, error)
                return

    def _stored(self, pack: Pack, error: Any) -> None:
        if error is not None:
            _log.warning(
                "an op of group %s did not reach queue %d (%s of %d transactions): %s; "
                "their checks repair it",
                self._group,
                pack.key.queue,
                pack.key.state.value,
                len(pack),
                error,
            )
        for on_stored in pack.on_stored:
            on_stored(None if error is None else RuntimeError(str(error)))
