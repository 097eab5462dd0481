"""Transactions as fast as a rate says, by the protocol itself: what applications would send.

python -m resolver.bench.load --bootstrap-servers H --prefix P --topic T --queues Q
                              --count N [--rate R]
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections import deque
from typing import Any

from confluent_kafka import Message, Producer

from resolver.protocol import Element, Half, Names, Op, Record, TransactionStatus

BODY = b"x" * 512
_PACKED = 32
_TICK_SECONDS = 0.01
GROUP = "bench"


class Load:
    """Sends halves, and an op for those that are stored."""

    def __init__(
        self, bootstrap: str, names: Names, topic: str, queues: int, with_ops: bool = True
    ) -> None:
        self._names = names
        self._topic = topic
        self._queues = queues
        self._with_ops = with_ops
        self._stored: list[deque[Element]] = [deque() for _ in range(queues)]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def run(self, count: int, rate: int | None) -> None:
        """Send `count` transactions, at most `rate` a second."""
        started = time.monotonic()
        sent = 0
        while sent < count:
            elapsed = time.monotonic() - started
            due = count if rate is None else min(count, int(elapsed * rate) + 1)
            for number in range(sent, due):
                self._send_half(number % self._queues)
            sent = max(sent, due)
            self._send_ops(partly=rate is not None)
            self._producer.poll(_TICK_SECONDS)
        self._producer.flush()
        self._send_ops(partly=True)
        self._producer.flush()

    def _send_half(self, queue: int) -> None:
        transaction_id = str(uuid.uuid4())
        born_at = time.time_ns() // 1_000_000
        half = Half(transaction_id, GROUP, self._topic, born_at, None, BODY, [("source", b"b")])

        def stored(error: Any, message: Message) -> None:
            if error is not None:
                raise RuntimeError(f"a half was not stored: {error}")
            if self._with_ops:
                self._stored[queue].append(Element(0, message.offset() or 0, transaction_id))

        self._produce(half.to_record(self._names.half, queue), stored)

    def _send_ops(self, partly: bool) -> None:
        """Send ops of 32 halves; `partly` also of the fewer that are left."""
        for queue, stored in enumerate(self._stored):
            while len(stored) >= _PACKED or (partly and stored):
                packed = [stored.popleft() for _ in range(min(_PACKED, len(stored)))]
                op = Op(TransactionStatus.COMMIT_MESSAGE, GROUP, tuple(packed))
                self._produce(op.to_record(self._names.op, queue), None)

    def _produce(self, record: Record, stored: Any) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=list(record.headers),
                    on_delivery=stored,
                )
                return
            except BufferError:
                self._producer.poll(_TICK_SECONDS)


def main() -> None:
    """Send what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--queues", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=int)
    parser.add_argument("--no-ops", action="store_true")
    given = parser.parse_args()
    names = Names(given.prefix)
    load = Load(
        given.bootstrap_servers, names, given.topic, given.queues, with_ops=not given.no_ops
    )
    load.run(given.count, given.rate)


if __name__ == "__main__":
    main()
