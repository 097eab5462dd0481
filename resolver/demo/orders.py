"""An order, the message about it, and what is to become of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import orjson

from ..message import Message

GROUP = "shop"
TOPIC = "orders.placed"

_ITEMS = ("lamp", "chair", "café table", "絨毯", "shelf", "mirror")


class Fate(str, Enum):
    """What the shop's local transaction does, and what it says of it at once."""

    PAID = "commits, and says so"
    REFUSED = "rolls back, and says so"
    PAID_SILENTLY = "commits, and says UNKNOWN"
    REFUSED_SILENTLY = "rolls back, and says UNKNOWN"
    NEVER_PAID = "waits for a payment that never comes: UNKNOWN for ever"


#: Per cent of the orders.
SHARES = {
    Fate.PAID: 74,
    Fate.REFUSED: 12,
    Fate.PAID_SILENTLY: 6,
    Fate.REFUSED_SILENTLY: 4,
    Fate.NEVER_PAID: 4,
}


class Content(NamedTuple):
    """What has to arrive bit for bit."""

    key: bytes | None
    body: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Order:
    """An order as the customer sends it."""

    customer: str
    item: str
    cents: int
    fate: Fate


def random_order(chance: random.Random) -> Order:
    """Return an order as it may come."""
    (fate,) = chance.choices(list(SHARES), list(SHARES.values()))
    customer = f"customer-{chance.randrange(500)}"
    return Order(customer, chance.choice(_ITEMS), chance.randrange(100, 99_900), fate)


def content_of(order: Order, chance: random.Random) -> Content:
    """Return the message about an order, now and then one that a careless carrier would change."""
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
