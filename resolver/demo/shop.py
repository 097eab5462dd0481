"""The order service: `python -m resolver.demo.shop`, a process that may be killed at any moment.

Its listener, `resolver.demo.shop:Orders`, is what `txresolver agent` answers checks with.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..cli.signals import until_stopped
from ..errors import SendError
from ..listener import TransactionListener
from ..message import Message
from ..producer import TransactionProducer
from ..protocol import TransactionStatus
from .database import OrderDatabase, State
from .orders import GROUP, Content, Fate, Order, content_of, message_of, random_order

#: Names the database's file.
DATABASE = "SHOP_DATABASE"
_PAYMENT_SECONDS = 0.01
_ORDERS_PER_THREAD = 20.0

_log = logging.getLogger(__name__)
_ANSWERS = {
    State.PLACED: TransactionStatus.COMMIT_MESSAGE,
    State.ROLLED_BACK: TransactionStatus.ROLLBACK_MESSAGE,
    State.AWAITS_PAYMENT: TransactionStatus.UNKNOWN,
}
_SILENT = (Fate.PAID_SILENTLY, Fate.REFUSED_SILENTLY)


class _PaymentRefused(Exception):
    """The order must not be placed."""


class Orders(TransactionListener):
    """Places orders, and knows what became of one."""

    def __init__(self) -> None:
        self._database = OrderDatabase(Path(os.environ[DATABASE]))

    def execute_local_transaction(
        self, message: Message, arg: tuple[Order, Content]
    ) -> TransactionStatus:
        """Place an order; some say UNKNOWN of what they did, as a lost connection would."""
        order, content = arg
        time.sleep(_PAYMENT_SECONDS)  # asking the bank
        if order.fate is Fate.NEVER_PAID:
            self._database.await_payment(message.transaction_id)
            return TransactionStatus.UNKNOWN
        status = self._place(message.transaction_id, order, content)
        return TransactionStatus.UNKNOWN if order.fate in _SILENT else status

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return _ANSWERS[self._database.settle(message.transaction_id)]

    def _place(self, transaction_id: str, order: Order, content: Content) -> TransactionStatus:
        try:
            with self._database.local_transaction(transaction_id, order, content):
                if order.fate in (Fate.REFUSED, Fate.REFUSED_SILENTLY):
                    raise _PaymentRefused
        except (_PaymentRefused, sqlite3.IntegrityError):
            return TransactionStatus.ROLLBACK_MESSAGE
        return TransactionStatus.COMMIT_MESSAGE


class Shop:
    """Sends orders at a steady rate, several at once."""

    def __init__(self, producer: TransactionProducer, rate: float) -> None:
        self._producer = producer
        self._rate = rate
        self._threads = max(4, min(64, int(rate / _ORDERS_PER_THREAD)))
        self._room = threading.Semaphore(2 * self._threads)

    def run(self) -> None:
        """Take orders until interrupted; those that were begun are finished."""
        chance = random.Random()  # noqa: S311 - customers, not secrets
        due = time.monotonic()
        with ThreadPoolExecutor(self._threads) as pool:
            while True:
                time.sleep(max(0.0, due - time.monotonic()))
                # What could not be sent in time is not made up for in a burst.
                due = max(due + 1 / self._rate, time.monotonic() - 1.0)
                order = random_order(chance)
                self._room.acquire()
                pool.submit(self._place, order, content_of(order, chance))

    def _place(self, order: Order, content: Content) -> None:
        try:
            self._producer.send_message_in_transaction(message_of(content), (order, content))
        except SendError as error:
            _log.warning("an order was not taken: %s", error)
        finally:
            self._room.release()


def main() -> None:
    """Run the shop until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="shop", description="The demo's order service.")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--rate", type=float, required=True, help="orders a second")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # The agent runs beside the shop: it answers while the shop is down.
    with (
        until_stopped(),
        TransactionProducer(
            GROUP, arguments.bootstrap_servers, Orders(), checks_elsewhere=True
        ) as producer,
    ):
        print(f"ready: group={GROUP}", flush=True)
        Shop(producer, arguments.rate).run()


if __name__ == "__main__":
    main()
