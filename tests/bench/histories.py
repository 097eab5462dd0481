"""An input with late, repeated and conflicting ends, and what each way of resolving makes of it."""

from __future__ import annotations

import heapq
import time
import uuid
from typing import Any

from confluent_kafka import Message

from resolver.protocol import Element, Half, Op, TransactionStatus

from .load import GROUP, bare_producer, produce
from .results import Figures
from .sent_log import SentLog, body_of
from .setup import Topics, await_delivered, watch

_COMMIT, _ROLLBACK = TransactionStatus.COMMIT_MESSAGE, TransactionStatus.ROLLBACK_MESSAGE
#: Seconds from a half to its first end, from that to a second end, and from a half to a late end.
#: The last is more than the resolver's time-out.
_SOON, _AGAIN, _LATE = 0.05, 0.5, 10.0
#: The ends of a transaction, by its number modulo the length: when, and which.
_ENDS: list[tuple[tuple[float, TransactionStatus], ...]] = [
    ((_SOON, _COMMIT), (_AGAIN, _COMMIT)),
    ((_SOON, _COMMIT), (_AGAIN, _ROLLBACK)),
    ((_SOON, _ROLLBACK), (_AGAIN, _COMMIT)),
    ((_LATE, _COMMIT),),
    ((_LATE, _ROLLBACK),),
    ((_SOON, _COMMIT),),
    ((_SOON, _ROLLBACK),),
    ((_SOON, _COMMIT),),
]
_TICK_SECONDS = 0.01


def is_committed(number: int) -> bool:
    """Whether the message is to be delivered: its first end says so."""
    return _ENDS[number % len(_ENDS)][0][1] is _COMMIT


class Histories:
    """Sends transactions at a rate, and their ends when they are due."""

    def __init__(self, topics: Topics, rate: int) -> None:
        self._topics = topics
        self._rate = rate
        self._producer = bare_producer(topics.settings.bootstrap_servers)
        self._due: list[tuple[float, int, int, Element, TransactionStatus]] = []
        self._sequence = 0

    def send(self, count: int) -> None:
        """Send them all, and return when the last end is stored."""
        started, sent = time.monotonic(), 0
        while sent < count or self._due:
            due = min(count, int((time.monotonic() - started) * self._rate) + 1)
            for number in range(sent, due):
                self._send_half(number)
            sent = due
            self._send_ends(time.monotonic())
            self._producer.poll(_TICK_SECONDS)
        self._producer.flush()

    def _send_half(self, number: int) -> None:
        queue = number % self._topics.settings.queues
        transaction_id = str(uuid.uuid4())
        now_ms = time.time_ns() // 1_000_000
        body = body_of(number, 512)
        half = Half(transaction_id, GROUP, self._topics.real, now_ms, None, body, [])

        def stored(error: Any, message: Message) -> None:
            if error is not None:
                raise RuntimeError(f"a half was not stored: {error}")
            element = Element(0, message.offset() or 0, transaction_id)
            for after, state in _ENDS[number % len(_ENDS)]:
                self._sequence += 1
                due = time.monotonic() + after
                heapq.heappush(self._due, (due, self._sequence, queue, element, state))

        produce(self._producer, half.to_record(self._topics.names.half, queue), stored)

    def _send_ends(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, _, queue, element, state = heapq.heappop(self._due)
            op = Op(state, GROUP, (element,))
            produce(self._producer, op.to_record(self._topics.names.op, queue), None)


def outcome_figures(topics: Topics, count: int) -> Figures:
    """Read what was delivered, and count where it differs from what the first ends say."""
    sent_log = SentLog(topics.home / "delivered", count)
    committed = [number for number in range(count) if is_committed(number)]
    with watch(topics, sent_log) as watcher:
        # What is wrongly there is not known beforehand: read until there is no more.
        await_delivered(sent_log, count, watcher, quiet_seconds=3.0)
    seen = sent_log.seen
    return {
        "transactions": count,
        "committed": len(committed),
        "lost": sum(1 for number in committed if not seen[number]),
        "doubled": sent_log.doubled(),
        "wrongly_delivered": int((seen > 0).sum()) - sum(1 for n in committed if seen[n]),
    }
