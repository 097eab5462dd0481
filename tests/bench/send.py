"""Transactions by `TransactionProducer`, as an application sends them; prints how many.

python -m tests.bench.send --bootstrap-servers H --prefix P --topic T --sent-log FILE --count N
                              --form F [--fast] [--rate R] [--in-flight N] [--body-bytes B]

Sends until its standard input ends.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from resolver import Message, TransactionListener, TransactionProducer, TransactionStatus

from .load import GROUP
from .pace import Pace
from .program import until_input_ends
from .sent_log import SentLog, body_of

#: Sending threads, as many as RocketMQ's benchmark has by default.
THREADS = 32
#: Messages of one local transaction in the bulk form, and how many such go on at once.
BULK = 100
_BULKS = 2


class Local(TransactionListener):
    """The local transaction: the time is written down, and that is committed."""

    def __init__(self, sent_log: SentLog) -> None:
        self._sent_log = sent_log

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        self._sent_log.since[arg] = time.time()
        return TransactionStatus.COMMIT_MESSAGE

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE


class Sender:
    """Sends in the form that was asked for until the pace says that all is sent."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._sent_log = SentLog(options.sent_log, options.count)
        self._pace = Pace(self._sent_log, until_input_ends(), options.rate, options.in_flight)

    def run(self) -> int:
        """Send, and return how many were."""
        options = self._options
        form, threads, kafka = {
            "threads": (self._one_by_one, THREADS, {}),
            "lingering": (self._one_by_one, THREADS, {"linger.ms": 1}),
            "bulk": (self._in_bulk, _BULKS, {}),
        }[options.form]
        with (
            TransactionProducer(
                GROUP,
                options.bootstrap_servers,
                Local(self._sent_log),
                topic_prefix=options.prefix,
                kafka=kafka,
                fast=options.fast,
            ) as producer,
            ThreadPoolExecutor(threads) as pool,
        ):
            for done in [pool.submit(form, producer) for _ in range(threads)]:
                done.result()
        return self._pace.sent

    def _one_by_one(self, producer: TransactionProducer) -> None:
        while numbers := self._pace.take(1):
            producer.send_message_in_transaction(self._message(numbers[0]), numbers[0])

    def _in_bulk(self, producer: TransactionProducer) -> None:
        while numbers := self._pace.take(BULK):
            with producer.transactions([self._message(number) for number in numbers]):
                self._sent_log.since[numbers[0] : numbers[-1] + 1] = time.time()

    def _message(self, number: int) -> Message:
        return Message(self._options.topic, body_of(number, self._options.body_bytes))


def main() -> None:
    """Send what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--sent-log", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True, help="transactions at most")
    parser.add_argument("--form", choices=["threads", "lingering", "bulk"], required=True)
    parser.add_argument("--fast", action="store_true", help="by fast commits")
    parser.add_argument("--rate", type=int)
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--body-bytes", type=int, default=512)
    print(Sender(parser.parse_args()).run())


if __name__ == "__main__":
    main()
