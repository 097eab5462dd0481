"""Transactions as an application sends them, through the producer, as fast as they go.

python -m tests.bench.client --bootstrap-servers H --form thread|threads|asyncio|bulk
                                [--prefix P] [--topic T] [--width N] [--seconds N] [--body-bytes N]
                                [--keys N] [--fast] [--wait]

A closed loop: each thread or task sends its next when the last one has returned. The local
transaction does nothing and commits. With `--wait`, for threads, a call returns when its commit is
safe in Kafka. Prints JSON; a round trip is a call's, for `bulk` that of all
its messages; CPU is that of this whole process, librdkafka's threads included.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
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

from .load import GROUP

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
        self._begins_at = time.perf_counter() + _WARM_UP_SECONDS
        self._ends_at = self._begins_at + seconds
        self._seconds = seconds
        self._round_trips: list[float] = []
        self._cpu_seconds = 0.0
        self._watching = threading.Thread(target=self._watch_cpu)
        self._watching.start()

    def goes_on(self) -> bool:
        return time.perf_counter() < self._ends_at

    def add(self, started: float) -> None:
        now = time.perf_counter()
        if self._begins_at <= started and now < self._ends_at:
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
        time.sleep(self._begins_at - time.perf_counter())
        before = time.process_time()
        time.sleep(self._ends_at - time.perf_counter())
        self._cpu_seconds = time.process_time() - before


def by_threads(send: Callable[[], object], threads: int, meter: Meter) -> None:
    """Send from several threads."""

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


#: Returns the next message.
Make = Callable[[], Message]


async def by_tasks(where: dict[str, Any], make: Make, tasks: int, meter: Meter) -> None:
    """Send from several tasks of one event loop."""
    async with AsyncTransactionProducer(listener=AsyncCommits(), **where) as producer:

        async def work() -> None:
            while meter.goes_on():
                started = time.perf_counter()
                await producer.send_message_in_transaction(make())
                meter.add(started)

        await asyncio.gather(*(work() for _ in range(tasks)))


def measure(
    form: str, where: dict[str, Any], make: Make, width: int, meter: Meter, waits: bool
) -> None:
    """Send in one form until the time is over."""
    if form == "asyncio":
        asyncio.run(by_tasks(where, make, width, meter))
        return
    with TransactionProducer(listener=Commits(), **where) as producer:
        if form == "bulk":

            def send_many() -> object:
                return producer.send_messages_in_transaction([make() for _ in range(width)])

            by_threads(send_many, 1, meter)
        elif waits:
            by_threads(lambda: producer.begin(make()).commit(wait=True), width, meter)
        else:
            by_threads(lambda: producer.send_message_in_transaction(make()), width, meter)


def maker(topic: str, body_bytes: int, keys: int) -> Make:
    """Return the maker of messages, of some keys in turn; 0: without a key."""
    body, headers = b"x" * body_bytes, [("source", b"bench")]
    if not keys:
        return itertools.repeat(Message(topic, body, headers=headers)).__next__
    customers = (b"customer-%d" % number for number in range(keys))
    return itertools.cycle([Message(topic, body, key, headers) for key in customers]).__next__


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
    parser.add_argument("--keys", type=int, default=0, help="different keys; 0 for no key")
    parser.add_argument("--fast", action="store_true", help="fast commits")
    parser.add_argument("--wait", action="store_true", help="wait for each commit: thread(s) only")
    options = parser.parse_args()
    where = {
        "group": GROUP,
        "bootstrap_servers": options.bootstrap_servers,
        "topic_prefix": options.prefix,
        "checks_elsewhere": True,
        "fast": options.fast,
    }
    width = options.width or _WIDTHS[options.form]
    meter = Meter(options.seconds)
    make = maker(options.topic, options.body_bytes, options.keys)
    measure(options.form, where, make, width, meter, options.wait)
    figures = meter.figures(width if options.form == "bulk" else 1)
    print(json.dumps({"form": options.form, "width": width, **figures}))


if __name__ == "__main__":
    main()
