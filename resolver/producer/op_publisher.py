"""Publishes ops: the application's ends and the agent's answers. Hooks see each of them.

No caller waits. A `Packer` (`op_pack.py`) has a `Pack` for each queue, state, origin and remark. A
pack collects ends until it is full or has lingered. A thread sends each pack as one op, through
`connection.py`. The op says the state once, then the half offsets and the transaction ids.

Next station: `resolver/resolve/source.py` plans on the driver which stored halves and ops are read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from ..protocol import HalfId, TransactionStatus
from .connection import Connection
from .end_hooks import EndHook, EndHooks
from .message import Message
from .op_pack import OnStored, Pack, Packer, PackKey
from .reported_state import ReportedState

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.05


class OpPublisher:
    """Packs the ends of a group's halves, and sends them from a thread of its own.

    An op that could not be sent is only logged: the resolver checks the half, and the answer
    repairs it. A caller that must know gives `on_stored`. One of the threads calls it; it must not
    block.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        op_topic: str,
        op_max_bytes: int = 4096,
        op_linger_ms: int = 10,
        hooks: Iterable[EndHook] = (),
    ) -> None:
        self._connection = connection
        self._group = group
        self._topic = op_topic
        self.hooks = EndHooks(group, hooks)
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

    def end(
        self,
        message: Message,
        half_id: HalfId,
        reported: ReportedState,
        from_check: bool = False,
        on_stored: OnStored | None = None,
    ) -> None:
        """Add the end to a pack, which the thread sends as an op; show the end to the hooks."""
        self.add(message, half_id, reported, from_check, on_stored)
        self.hooks.show(message, half_id, reported, from_check)

    def add(
        self,
        message: Message,
        half_id: HalfId,
        reported: ReportedState,
        from_check: bool = False,
        on_stored: OnStored | None = None,
        gives_up_fast: bool = False,
    ) -> None:
        """Add the end to a pack, and show nothing to the hooks.

        A pack has ends of one queue and state, and is sent within the linger time. `gives_up_fast`
        says in an UNKNOWN that the producer will not commit this half fast.
        """
        # A listener's failure is no answer. Otherwise a database that is away would use up the
        # checks, and the message would be discarded.
        answers = from_check and reported.usable
        key = PackKey(
            half_id.queue, reported.state, answers, reported.remark, gives_up_fast=gives_up_fast
        )
        with self._changed:
            is_open = not self._done and self._thread.is_alive()
            if is_open:
                self._pack(key, half_id.offset, message.transaction_id, on_stored)
        if not is_open:
            _log.warning("an end of group %s came after the close; it is not sent", self._group)
            if on_stored is not None:
                on_stored(RuntimeError("the producer is closed"))

    def announce(self, queues: int) -> None:
        """Tell the resolver that an agent is there: an op without elements, in each queue."""
        with self._changed:
            for queue in range(queues):
                key = PackKey(queue, TransactionStatus.UNKNOWN, from_check=True)
                self._ready.append(Pack(self._group, key, 0.0))
            self._changed.notify()

    def close(self, timeout: float) -> None:
        """Send the remaining ops; the connection waits for their acknowledgements."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)

    def _pack(
        self, key: PackKey, offset: int, transaction_id: str, on_stored: OnStored | None
    ) -> None:
        full = self._packer.add(key, offset, transaction_id, time.monotonic(), on_stored)
        if full is not None:
            self._ready.append(full)
        if full is not None or not self._lingering:
            self._lingering = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                packs = self._next()
                if packs is None:
                    return
            for pack in packs:
                self._produce(pack)

    def _next(self) -> list[Pack] | None:
        """Wait for packs to send; return None when the publisher closes and all are sent."""
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
                time.sleep(_RETRY_SECONDS)  # the local queue is full, and empties by itself
            except Exception as error:
                self._stored(pack, error)
                return

    def _stored(self, pack: Pack, error: Any) -> None:
        if error is not None and not len(pack):
            _log.info("an announcement of group %s is not stored: %s", self._group, error)
        elif error is not None:
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
