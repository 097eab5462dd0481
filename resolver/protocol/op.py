"""Ops: commit, rollback or unknown, for halves that they name by their offsets in the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from ..errors import MalformedOp
from . import names as n
from . import op_fields
from .record import Headers, Record, short
from .status import TransactionStatus

#: Characters of an actor that are kept for a single element of its op.
_ACTOR_CHARACTERS = 200


class Element(NamedTuple):
    """One position in an op, with the offset and the transaction id of its half."""

    position: int
    offset: int
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Op:
    """An op: one state for many halves of one queue. Each element is judged on its own.

    An op without elements is the announcement of an agent: `UNKNOWN`, with `from_check`.

    `delivered` says that the producer itself wrote the messages, in one Kafka transaction with this
    commit. `gives_up_fast` says in an `UNKNOWN` that its sender will not commit the halves fast.

    `malformed` has the refused elements: their index and the reason.
    """

    state: TransactionStatus
    group: str
    elements: tuple[Element, ...]
    from_check: bool = False
    remark: str | None = None
    actor: str | None = None
    malformed: tuple[tuple[int, str], ...] = ()
    delivered: bool = False
    gives_up_fast: bool = False

    @property
    def announces(self) -> bool:
        """Whether the op names no half, and so announces an agent of its group."""
        return not self.elements and not self.malformed

    def about(self, *elements: Element) -> Op:
        """Return the op with only these elements, without its remark and with its actor cut.

        The space for one element, kept or reported, must not depend on the other content of its op.
        """
        actor = self.actor and self.actor[:_ACTOR_CHARACTERS]
        return replace(self, elements=elements, remark=None, actor=actor, malformed=())

    def to_record(self, op_topic: str, queue: int) -> Record:
        """Encode as a record of the op topic's partition `queue`."""
        return Record(op_topic, None, self.to_value(), [(n.TAGS, n.OP_TAG)], queue)

    def to_value(self) -> bytes:
        """Encode as an op's value, in JSON."""
        body: dict[str, Any] = {
            "state": self.state.value,
            "group": self.group,
            "offsets": [element.offset for element in self.elements],
            "transaction_ids": [element.transaction_id for element in self.elements],
            "from_check": self.from_check,
            # Replace characters that UTF-8 can't encode: anybody may write a remark, and its op
            # must not fail.
            "remark": self.remark and self.remark.encode("utf-8", "replace").decode(),
        }
        if self.actor is not None:
            body["actor"] = self.actor
        if self.delivered:
            body["delivered"] = True
        if self.gives_up_fast:
            body["fast"] = False
        return orjson.dumps(body)


def decode_op(value: bytes | None, headers: Headers) -> Op:
    """Decode a record of the op topic that is no fence; unknown fields are ignored.

    Raises `MalformedOp` if the record as a whole is refused; refused elements are in `malformed`.
    """
    tags = [value for name, value in headers if name == n.TAGS]
    if tags != [n.OP_TAG]:
        described = short(tags[0]) if len(tags) == 1 else f"there {len(tags)} times"
        raise MalformedOp(f"header TAGS is {described}; an op has it once, as b'd'")
    body = op_fields.body(value)
    offsets, ids = op_fields.list_of(body, "offsets"), op_fields.list_of(body, "transaction_ids")
    if len(offsets) != len(ids) or not (offsets or op_fields.may_announce(body)):
        raise MalformedOp(
            f"{len(offsets)} offsets and {len(ids)} transaction_ids; an op needs as many of "
            "each, at least one"
        )
    if len(offsets) > n.MAX_OP_ELEMENTS:
        raise MalformedOp(
            f"{len(offsets)} elements; an op has at most {n.MAX_OP_ELEMENTS}", remedy="send several"
        )
    elements: list[Element] = []
    malformed: list[tuple[int, str]] = []
    for index, (offset, transaction_id) in enumerate(zip(offsets, ids, strict=True)):
        error = op_fields.element_error(offset, transaction_id)
        if error is None:
            elements.append(Element(index, offset, transaction_id))
        else:
            malformed.append((index, error))
    op = Op(
        state=op_fields.state(body),
        group=op_fields.group(body),
        elements=tuple(elements),
        from_check=op_fields.flag(body, "from_check"),
        remark=op_fields.optional_text(body, "remark"),
        actor=op_fields.actor(body),
        malformed=tuple(malformed),
        delivered=op_fields.flag(body, "delivered"),
        gives_up_fast=not op_fields.flag(body, "fast", absent=True),
    )
    _refuse_contradictions(op)
    return op


def _refuse_contradictions(op: Op) -> None:
    decides = op.from_check or op.actor is not None
    if op.delivered and (op.state is not TransactionStatus.COMMIT_MESSAGE or decides):
        raise MalformedOp(
            "delivered is true; only a producer's COMMIT_MESSAGE has it, with neither from_check "
            "nor actor"
        )
    if op.gives_up_fast and (op.state is not TransactionStatus.UNKNOWN or decides):
        raise MalformedOp(
            "fast is false; only a producer's UNKNOWN has it, with neither from_check nor actor"
        )
