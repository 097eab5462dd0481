"""Transactions as records of the protocol, by a bare librdkafka producer: a load of the resolver.

python -m tests.bench.load --bootstrap-servers H --prefix P --topic T --queues Q --count N
                              [--first N] [--rate R] [--body-bytes B] [--no-ops]
                              [--due-at SECONDS --due-rate R] [--sent-log FILE --capacity N]
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections import deque
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer

from resolver.protocol import Element, Half, Names, Op, Record, TransactionStatus

from .sent_log import SentLog, body_of

#: The producer group of every load.
GROUP = "bench"
#: Halves of one queue in an op, as `TransactionProducer` packs them under load.
PACKED = 32
_TICK_SECONDS = 0.01
#: Most halves before ops are sent again: in a backlog too, an op is not far behind its half.
_SLICE = 1_000


class Load:
    """Sends halves, and an op for those that are stored."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._names = Names(options.prefix)
        self._stored: list[deque[Element]] = [deque() for _ in range(options.queues)]
        self._sent_log = SentLog(options.sent_log, options.capacity) if options.sent_log else None
        self._producer = bare_producer(options.bootstrap_servers)

    def run(self) -> None:
        """Send the transactions, at most `rate` a second."""
        first, count, rate = self._options.first, self._options.count, self._options.rate
        started = time.monotonic()
        sent = 0
        while sent < count:
            due = sent + _SLICE
            if rate is not None:
                due = int((time.monotonic() - started) * rate) + 1
            due = min(due, count)
            for number in range(sent, due):
                self._send_half(first + number)
            sent = due
            self._send_ops(partly=rate is not None)
            self._producer.poll(0 if rate is None else _TICK_SECONDS)
        self._producer.flush()
        self._send_ops(partly=True)
        self._producer.flush()

    def _send_half(self, number: int) -> None:
        queue = number % self._options.queues
        transaction_id = str(uuid.uuid4())
        immunity = self._immunity(number)
        half = Half(
            transaction_id,
            GROUP,
            self._options.topic,
            time.time_ns() // 1_000_000,
            None,
            body_of(number, self._options.body_bytes),
            [("source", b"b")],
            immunity_seconds=immunity,
        )

        def stored(error: Any, message: Message) -> None:
            if error is not None:
                raise RuntimeError(f"a half was not stored: {error}")
            if not self._options.no_ops:
                self._stored[queue].append(Element(0, message.offset() or 0, transaction_id))
            elif self._sent_log is not None:
                wait = immunity or self._options.timeout_ms / 1_000
                self._sent_log.since[number] = message.timestamp()[1] / 1_000 + wait

        produce(self._producer, half.to_record(self._names.half, queue), stored)

    def _immunity(self, number: int) -> int | None:
        """Return whole seconds such that checks fall due at `due-rate` from `due-at` on."""
        if self._options.due_at is None:
            return None
        due_at: float = self._options.due_at + number / self._options.due_rate
        return max(1, round(due_at - time.time()))

    def _send_ops(self, partly: bool) -> None:
        """Send ops of 32 halves; with `partly` also ops of fewer."""
        for queue, stored in enumerate(self._stored):
            while len(stored) >= PACKED or (partly and stored):
                packed = [stored.popleft() for _ in range(min(PACKED, len(stored)))]
                op = Op(TransactionStatus.COMMIT_MESSAGE, GROUP, tuple(packed))
                produce(self._producer, op.to_record(self._names.op, queue), None)


def bare_producer(bootstrap: str) -> Producer:
    """Return a librdkafka producer with the guarantees of `TransactionProducer`'s."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )


def produce(producer: Producer, record: Record, stored: Any) -> None:
    """Send a record as soon as the local queue has room."""
    while True:
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                headers=list(record.headers),
                on_delivery=stored,
            )
            return
        except BufferError:
            producer.poll(_TICK_SECONDS)


def main() -> None:
    """Send what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--queues", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="the first transaction's number")
    parser.add_argument("--rate", type=int)
    parser.add_argument("--body-bytes", type=int, default=512)
    parser.add_argument("--no-ops", action="store_true")
    parser.add_argument("--timeout-ms", type=int, default=6_000, help="the resolver's, for a check")
    parser.add_argument("--due-at", type=float, help="when the first check shall be due")
    parser.add_argument("--due-rate", type=float, default=1_000, help="checks due in a second")
    parser.add_argument("--sent-log", type=Path, help="where to write when checks are due")
    parser.add_argument("--capacity", type=int, help="of the sent log")
    Load(parser.parse_args()).run()


if __name__ == "__main__":
    main()
