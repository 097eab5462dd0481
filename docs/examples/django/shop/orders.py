"""Placing orders, each with its message: both or neither."""

import atexit
from functools import cache

from django.conf import settings
from django.db import connection, transaction

from resolver import Message, TransactionProducer

from .models import Order
from .transactions import listener, log


@cache
def producer() -> TransactionProducer:
    """Return the process's producer, made when it is first needed: after any fork."""
    made = TransactionProducer(
        "shop",
        settings.KAFKA_BOOTSTRAP_SERVERS,
        listener,
        topic_prefix=settings.KAFKA_TOPIC_PREFIX,
    )
    atexit.register(made.close)
    return made


def place(item: str) -> None:
    """Place an order; `durable` refuses a transaction around it, which would commit later."""
    message = Message("orders.placed", item.encode())
    with producer().transaction(message) as tx, transaction.atomic(durable=True):
        log.commit(connection, tx.transaction_id)
        Order.objects.create(item=item)
