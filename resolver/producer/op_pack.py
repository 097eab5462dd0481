"""Packs ends into ops: pure, without a clock and without Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson

from ..protocol import Element, Op, Record, TransactionStatus
from ..protocol.names import MAX_OP_ELEMENTS

#: Function called once for an end: with None when Kafka has stored it, else with the error.
OnStored = Callable[[Exception | None], None]


class PackKey(NamedTuple):
    """The common part of all elements of one op."""

    queue: int
    state: TransactionStatus
    from_check: bool = False
    remark: str | None = None
    actor: str | None = None
    delivered: bool = False
    gives_up_fast: bool = False


class Pack:
    """An op that is being filled, to be sent at `due_at` at the latest.

    `due_at` is in seconds of the caller's clock.
    """

    __slots__ = ("_group", "_ids", "_offsets", "bytes", "due_at", "key", "on_stored")

    def __init__(self, group: str, key: PackKey, due_at: float) -> None:
        self.key = key
        self.due_at = due_at
        self.on_stored: list[OnStored] = []
        self._group = group
        self._offsets: list[int] = []
        self._ids: list[str] = []
        self.bytes = len(self.to_record("").value or b"")

    def __len__(self) -> int:
        return len(self._offsets)

    def takes(self, element_bytes: int, max_bytes: int) -> bool:
        """Whether an element fits; an empty pack takes any, so that a long id can be sent too."""
        if not self._offsets:
            return True
        return self.bytes + element_bytes <= max_bytes and len(self) < MAX_OP_ELEMENTS

    def add(self, offset: int, transaction_id: str, size: int, on_stored: OnStored | None) -> None:
        self._offsets.append(offset)
        self._ids.append(transaction_id)
        self.bytes += size
        if on_stored is not None:
            self.on_stored.append(on_stored)

    def to_record(self, op_topic: str) -> Record:
        """Encode as one op of the queue, its elements in the order of their ends."""
        elements = tuple(
            Element(position, offset, transaction_id)
            for position, (offset, transaction_id) in enumerate(
                zip(self._offsets, self._ids, strict=True)
            )
        )
        queue, state, from_check, remark, actor, delivered, gives_up_fast = self.key
        op = Op(
            state,
            self._group,
            elements,
            from_check,
            remark,
            actor,
            delivered=delivered,
            gives_up_fast=gives_up_fast,
        )
        return op.to_record(op_topic, queue)


class Packer:
    """Fills one pack for each key; `add` returns a full one.

    Ends of one key keep their order. An element longer than `max_bytes` has an op of its own.
    """

    def __init__(self, group: str, max_bytes: int, linger_seconds: float) -> None:
        self._group = group
        self._max_bytes = max_bytes
        self._linger = linger_seconds
        self._open: dict[PackKey, Pack] = {}

    def add(
        self,
        key: PackKey,
        offset: int,
        transaction_id: str,
        now: float,
        on_stored: OnStored | None = None,
    ) -> Pack | None:
        """Add an end; return the pack that it did not fit into, which is to be sent."""
        size = len(str(offset)) + len(orjson.dumps(transaction_id)) + 2  # two commas
        pack = self._open.get(key)
        full = None
        if pack is None or not pack.takes(size, self._max_bytes):
            full = pack
            pack = self._open[key] = Pack(self._group, key, now + self._linger)
        pack.add(offset, transaction_id, size, on_stored)
        return full

    def next_due_at(self) -> float | None:
        """Return when the first pack is to be sent; None if there is no pack."""
        return min((pack.due_at for pack in self._open.values()), default=None)

    def take_due(self, now: float) -> list[Pack]:
        """Take out the packs that have lingered long enough."""
        due = [pack for pack in self._open.values() if pack.due_at <= now]
        for pack in due:
            del self._open[pack.key]
        return due

    def take_all(self) -> list[Pack]:
        packs = list(self._open.values())
        self._open.clear()
        return packs
