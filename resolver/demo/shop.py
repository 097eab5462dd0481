"""The order service: `python -m resolver.demo.shop`, a process that may be killed at any moment.

`txresolver agent` answers checks with its listener, `resolver.demo.shop:Orders`.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from ..broker.signals import until_stopped
from ..errors import SendError
from ..producer.message import Message
from ..producer.producer import TransactionProducer
from ..protocol import TransactionStatus
from ..sql import SqlTransactionListener, TransactionLog

GROUP = "shop"
TOPIC = "orders.placed"
#: Variable with the path of the database's file.
DATABASE = "SHOP_DATABASE"

_ITEMS = ("lamp", "chair", "café table", "絨毯", "shelf", "mirror")
_BUSY_SECONDS = 30.0
_PAYMENT_SECONDS = 0.01
_ORDERS_PER_THREAD = 20.0

_log = logging.getLogger(__name__)


class Fate(str, Enum):
    """The fate of an order: the act of the local transaction, and the shop's report at once."""

    PAID = "commits, and says so"
    REFUSED = "rolls back, and says so"
    PAID_SILENTLY = "commits, and says UNKNOWN"
    REFUSED_SILENTLY = "rolls back, and says UNKNOWN"
    NEVER_PAID = "waits for a payment that never comes: always UNKNOWN"


#: Share of each fate, in per cent of the orders.
_SHARES = {
    Fate.PAID: 74,
    Fate.REFUSED: 12,
    Fate.PAID_SILENTLY: 6,
    Fate.REFUSED_SILENTLY: 4,
    Fate.NEVER_PAID: 4,
}
_REFUSED = (Fate.REFUSED, Fate.REFUSED_SILENTLY)
_SILENT = (Fate.PAID_SILENTLY, Fate.REFUSED_SILENTLY)


class Order(NamedTuple):
    """An order as the customer sends it."""

    customer: str
    item: str
    cents: int
    fate: Fate


class Content(NamedTuple):
    """The content of a message, which has to arrive bit for bit."""

    key: bytes | None
    body: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def random_order(chance: random.Random) -> Order:
    """Return a random order."""
    (fate,) = chance.choices(list(_SHARES), list(_SHARES.values()))
    customer = f"customer-{chance.randrange(500)}"
    return Order(customer, chance.choice(_ITEMS), chance.randrange(100, 99_900), fate)


def content_of(order: Order, chance: random.Random) -> Content:
    """Return the content about an order, now and then one that a careless carrier would change."""
    body = {"customer": order.customer, "item": order.item, "cents": order.cents}
    headers: list[tuple[str, bytes | None]] = [("source", b"shop"), ("trace", chance.randbytes(8))]
    if chance.random() < 0.2:
        headers += [("tag", b"gift"), ("tag", b""), ("coupon", None)]
    key = None if chance.random() < 0.1 else order.customer.encode()
    label = chance.randbytes(chance.randrange(200)) if chance.random() < 0.2 else b""
    return Content(key, orjson.dumps(body) + label, tuple(headers))


def message_of(content: Content) -> Message:
    """Return the message that carries a content."""
    return Message(TOPIC, content.body, content.key, list(content.headers))


#: The log has the ids of all local transactions that have ended.
LOG = TransactionLog("shop_log")
_ORDERS = Table(
    "orders",
    LOG.metadata,
    Column("transaction_id", String, primary_key=True),
    Column("placed_at", Float, nullable=False),
    Column("customer", String, nullable=False),
    Column("item", String, nullable=False),
    Column("cents", Integer, nullable=False),
    Column("message_key", LargeBinary),
    Column("message_body", LargeBinary),
    Column("message_headers", JSON, nullable=False),  # names and values, the values in hexadecimal
)
_UNPAID = Table("unpaid", LOG.metadata, Column("transaction_id", String, primary_key=True))


def open_database(path: Path) -> Engine:
    """Open the file for all threads of this process; a kill -9 leaves it consistent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Let threads take turns by the pool's one connection. SQLite itself waits by polling.
    one_connection = {"pool_size": 1, "max_overflow": 0}
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": _BUSY_SECONDS}, **one_connection
    )
    event.listen(engine, "connect", _set_up)
    LOG.metadata.create_all(engine)
    return engine


def _set_up(connection: Any, _record: object) -> None:
    # Let readers not wait for a writer, and a commit not for the disk. A killed process loses
    # nothing; only a power cut would lose data.
    connection.execute("PRAGMA journal_mode = WAL").close()
    connection.execute("PRAGMA synchronous = NORMAL").close()


def write_order(
    connection: Connection, transaction_id: str, order: Order, content: Content
) -> None:
    """Write an order and its message down, in the local transaction."""
    headers = [(name, None if value is None else value.hex()) for name, value in content.headers]
    connection.execute(
        insert(_ORDERS).values(
            transaction_id=transaction_id,
            placed_at=time.time(),
            customer=order.customer,
            item=order.item,
            cents=order.cents,
            message_key=content.key,
            message_body=content.body,
            message_headers=headers,
        )
    )


def placed(engine: Engine) -> dict[str, Content]:
    """Return the message of each order whose local transaction committed, by transaction."""
    row = _ORDERS.c
    query = select(row.transaction_id, row.message_key, row.message_body, row.message_headers)
    with engine.connect() as connection:
        return {
            transaction_id: Content(key, body, tuple(map(_read_header, headers)))
            for transaction_id, key, body, headers in connection.execute(query)
        }


def _read_header(pair: tuple[str, str | None]) -> tuple[str, bytes | None]:
    name, value = pair
    return name, None if value is None else bytes.fromhex(value)


class _PaymentRefused(Exception):
    """The order must not be placed."""


class Orders(SqlTransactionListener):
    """Places orders, and answers their checks from the transaction log."""

    def __init__(self) -> None:
        super().__init__(open_database(Path(os.environ[DATABASE])), LOG)

    def execute_local_transaction(
        self, message: Message, arg: tuple[Order, Content]
    ) -> TransactionStatus:
        """Place an order; for some orders return UNKNOWN, as after a lost connection."""
        order, content = arg
        time.sleep(_PAYMENT_SECONDS)  # asking the bank
        if order.fate is Fate.NEVER_PAID:
            with self.engine.begin() as connection:
                connection.execute(insert(_UNPAID).values(transaction_id=message.transaction_id))
            return TransactionStatus.UNKNOWN
        status = self._place_order(message.transaction_id, order, content)
        return TransactionStatus.UNKNOWN if order.fate in _SILENT else status

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        query = select(_UNPAID).where(_UNPAID.c.transaction_id == message.transaction_id)
        with self.engine.connect() as connection:
            if connection.execute(query).first() is not None:
                return TransactionStatus.UNKNOWN
        return super().check_local_transaction(message)

    def _place_order(
        self, transaction_id: str, order: Order, content: Content
    ) -> TransactionStatus:
        try:
            with self.engine.begin() as connection:
                self.log.commit(connection, transaction_id)
                write_order(connection, transaction_id, order, content)
                if order.fate in _REFUSED:
                    raise _PaymentRefused
        except (_PaymentRefused, IntegrityError):  # by a check that was answered meanwhile
            return TransactionStatus.ROLLBACK_MESSAGE
        return TransactionStatus.COMMIT_MESSAGE


def take_orders(producer: TransactionProducer, rate: float) -> None:
    """Send orders at a steady rate, several at once, until interrupted; finish those begun."""
    threads = max(4, min(64, int(rate / _ORDERS_PER_THREAD)))
    room = threading.Semaphore(2 * threads)

    def send(order: Order, content: Content) -> None:
        try:
            producer.send_message_in_transaction(message_of(content), (order, content))
        except SendError as error:
            _log.warning("an order was not taken: %s", error)
        finally:
            room.release()

    chance = random.Random()  # noqa: S311 - customers, not secrets
    due = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            # Drop arrears of more than a second: no burst makes up for them.
            due = max(due + 1 / rate, time.monotonic() - 1.0)
            order = random_order(chance)
            room.acquire()
            pool.submit(send, order, content_of(order, chance))


def main() -> None:
    """Run the shop until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="shop", description="The demo's order service.")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--rate", type=float, required=True, help="orders a second")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Run no agent here: it runs beside the shop, and answers while the shop is down.
    with (
        until_stopped(),
        TransactionProducer(
            GROUP, options.bootstrap_servers, Orders(), checks_elsewhere=True
        ) as producer,
    ):
        print(f"ready: group={GROUP}", flush=True)
        take_orders(producer, options.rate)


if __name__ == "__main__":
    main()
