"""Transactions as an application sends them, through the producer, as fast as they go.

python -m resolver.bench.client --bootstrap-servers H --form thread|threads|asyncio|bulk
                                [--prefix P] [--topic T] [--width N] [--seconds N] [--body-bytes N]

A closed loop: each thread or task sends its next when the last one has returned. The local
transaction does nothing and commits. Prints JSON; a round trip is a call's, for `bulk` that of all
its messages; CPU is that of this whole process, librdkafka's threads included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from resolver import (
    AsyncTransactionProducer,
    Message,
    TransactionListener,
    TransactionProducer,
    TransactionStatus,
)
from resolver.bench.load import GROUP

#: Threads, tasks, or messages of a call.
_WIDTHS = {"thread": 1, "threads": 32, "asyncio": 256, "bulk": 100}
_WARM_UP_SECONDS = 3.0


class Commits(TransactionListener):
    """Says at once that the local transaction has committed."""

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE

    def execute_local_transaction_for_all(
        self, messages: Sequence[Message], arg: Any
    ) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE


class AsyncCommits:
    """The same, in the event loop."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE

    async def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE


class Meter:
    """Counts the calls that begin and end within the time that is measured."""

    def __init__(self, seconds: float) -> None:
        self._from = time.perf_counter() + _WARM_UP_SECONDS
        self._to = self._from + seconds
        self._seconds = seconds
        self._round_trips: list[float] = []
        self._cpu_seconds = 0.0
        self._watching = threading.Thread(target=self._watch_cpu)
        self._watching.start()

    def goes_on(self) -> bool:
        return time.perf_counter() < self._to

    def add(self, started: float) -> None:
        now = time.perf_counter()
        if self._from <= started and now < self._to:
            self._round_trips.append(now - started)

    def figures(self, messages_a_call: int) -> dict[str, float]:
        self._watching.join()
        trips = sorted(self._round_trips)
        transactions = len(trips) * messages_a_call
        return {
            "transactions_per_second": round(transactions / self._seconds, 1),
            "round_trip_mean_ms": round(statistics.fmean(trips) * 1e3, 3),
            "round_trip_p50_ms": round(trips[len(trips) // 2] * 1e3, 3),
            "round_trip_p99_ms": round(trips[len(trips) * 99 // 100] * 1e3, 3),
            "cpu_us_per_transaction": round(self._cpu_seconds * 1e6 / transactions, 1),
        }

    def _watch_cpu(self) -> None:
        time.sleep(self._from - time.perf_counter())
        before = time.process_time()
        time.sleep(self._to - time.perf_counter())
        self._cpu_seconds = time.process_time() - before


def by_threads(send: Callable[[], object], threads: int, meter: Meter) -> None:
    """Send from so many threads."""

    def work() -> None:
        while meter.goes_on():
            started = time.perf_counter()
            send()
            meter.add(started)

    working = [threading.Thread(target=work) for _ in range(threads)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()


async def by_tasks(where: dict[str, Any], message: Message, tasks: int, meter: Meter) -> None:
    """Send from so many tasks of one event loop."""
    async with AsyncTransactionProducer(listener=AsyncCommits(), **where) as producer:

        async def work() -> None:
            while meter.goes_on():
                started = time.perf_counter()
                await producer.send_message_in_transaction(message)
                meter.add(started)

        await asyncio.gather(*(work() for _ in range(tasks)))


def measure(form: str, where: dict[str, Any], message: Message, width: int, meter: Meter) -> None:
    """Send in one form until the time is over."""
    if form == "asyncio":
        asyncio.run(by_tasks(where, message, width, meter))
        return
    with TransactionProducer(listener=Commits(), **where) as producer:
        if form == "bulk":
            messages = [message] * width
            by_threads(lambda: producer.send_messages_in_transaction(messages), 1, meter)
        else:
            by_threads(lambda: producer.send_message_in_transaction(message), width, meter)


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--prefix", default="tx.")
    parser.add_argument("--topic", default="bench", help="the messages' real topic")
    parser.add_argument("--form", required=True, choices=_WIDTHS)
    parser.add_argument("--width", type=int, help=f"threads, tasks, messages a call: {_WIDTHS}")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--body-bytes", type=int, default=512)
    given = parser.parse_args()
    where = {
        "group": GROUP,
        "bootstrap_servers": given.bootstrap_servers,
        "topic_prefix": given.prefix,
        "checks_elsewhere": True,
    }
    width = given.width or _WIDTHS[given.form]
    message = Message(given.topic, b"x" * given.body_bytes, headers=[("source", b"bench")])
    meter = Meter(given.seconds)
    measure(given.form, where, message, width, meter)
    figures = meter.figures(width if given.form == "bulk" else 1)
    print(json.dumps({"form": given.form, "width": width, **figures}))


if __name__ == "__main__":
    main()
