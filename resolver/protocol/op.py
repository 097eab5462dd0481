"""Ops: commit, rollback or unknown, for halves that they name by their offsets in the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import orjson

from ..errors import MalformedOp
from . import names as n
from .record import Headers, Record, short

#: Characters of an actor that are kept for a single element of its op.
_ACTOR_CHARACTERS = 200


class TransactionStatus(str, Enum):
    """The state of a local transaction, as an application or a listener reports it.

    Attributes:
        COMMIT_MESSAGE: The local transaction has committed: make the message visible.
        ROLLBACK_MESSAGE: The local transaction has not committed and never will: drop the message.
        UNKNOWN: Not known yet: the resolver asks again by a check.

    Example:
        ```python
        def execute_local_transaction(self, message, arg):
            if place_order(arg, message.transaction_id):  # commits in the database
                return TransactionStatus.COMMIT_MESSAGE
            return TransactionStatus.ROLLBACK_MESSAGE
        ```
    """

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOWN"


_STATES = {status.value: status for status in TransactionStatus}


class Element(NamedTuple):
    """One position in an op, with the offset and the transaction id of its half."""

    position: int
    offset: int
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Op:
    """An op: one state for many halves of one queue. Each element is judged on its own.

    An op without elements is the announcement of an agent: `UNKNOWN`, with `from_check`.

    A `delivered` commit was written in one Kafka transaction with its halves' messages. `fast` is
    False if the sender of an `UNKNOWN` will not commit the halves so.

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
    fast: bool = True

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
        if not self.fast:
            body["fast"] = False
        return orjson.dumps(body)


def decode_op(value: bytes | None, headers: Headers) -> Op:
    """Decode a record of the op topic that is no fence; unknown fields are ignored.

    Raises `MalformedOp` if the record as a whole is refused; refused elements are in `malformed`.
    """
    tags = [value for name, value in headers if name == n.TAGS]
    if tags != [n.OP_TAG]:
        found = short(tags[0]) if len(tags) == 1 else f"there {len(tags)} times"
        raise MalformedOp(f"header TAGS is {found}; an op has it once, as b'd'")
    body = _body(value)
    offsets, ids = _list(body, "offsets"), _list(body, "transaction_ids")
    if len(offsets) != len(ids) or not (offsets or _may_announce(body)):
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
        error = _element_error(offset, transaction_id)
        if error is None:
            elements.append(Element(index, offset, transaction_id))
        else:
            malformed.append((index, error))
    op = Op(
        state=_state(body),
        group=_group(body),
        elements=tuple(elements),
        from_check=_flag(body, "from_check"),
        remark=_optional_text(body, "remark"),
        actor=_actor(body),
        malformed=tuple(malformed),
        delivered=_flag(body, "delivered"),
        fast=_flag(body, "fast", absent=True),
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
    if not op.fast and (op.state is not TransactionStatus.UNKNOWN or decides):
        raise MalformedOp(
            "fast is false; only a producer's UNKNOWN has it, with neither from_check nor actor"
        )


def _body(value: bytes | None) -> dict[str, Any]:
    try:
        # Put the value in brackets. If two blanks follow its first bracket, and dense JSON follows
        # them, orjson since 3.11 reserves too little memory, and refuses legal JSON.
        bodies = orjson.loads(b"[%b]" % (value or b""))
    except orjson.JSONDecodeError as error:
        raise MalformedOp(f"the value is not JSON: {error}") from error
    if len(bodies) != 1:
        raise MalformedOp(f"the value is not JSON: it has {len(bodies)} values")
    body = bodies[0]
    if not isinstance(body, dict):
        raise MalformedOp(f"the value is a JSON {type(body).__name__}; it must be an object")
    return body


def _state(body: dict[str, Any]) -> TransactionStatus:
    state = body.get("state")
    # Look the state up here. The enum would quote an unknown value in its error, and the value may
    # be nested too deep to be written.
    if not isinstance(state, str) or state not in _STATES:
        raise MalformedOp(f"state is {short(state)}; it must be {', '.join(_STATES)}")
    return _STATES[state]


def _group(body: dict[str, Any]) -> str:
    group = body.get("group")
    if not isinstance(group, str) or not n.legal_group(group):
        raise MalformedOp(f"group is {short(group)}; it must be 1-200 of a-z A-Z 0-9 . _ -")
    return group


def _may_announce(body: dict[str, Any]) -> bool:
    return body.get("state") == "UNKNOWN" and body.get("from_check") is True


def _list(body: dict[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list):
        raise MalformedOp(f"{name} is {short(value)}; it must be a list")
    return value


def _flag(body: dict[str, Any], name: str, absent: bool = False) -> bool:
    value = body.get(name, absent)
    if not isinstance(value, bool):
        raise MalformedOp(f"{name} is {short(value)}; it must be true or false")
    return value


def _optional_text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise MalformedOp(f"{name} is {short(value)}; it must be text or null")
    return value


def _actor(body: dict[str, Any]) -> str | None:
    actor = _optional_text(body, "actor")
    if actor == "":
        raise MalformedOp("actor is ''; it must name an operator, or be null")
    return actor


def _element_error(offset: Any, transaction_id: Any) -> str | None:
    if type(offset) is not int or not 0 <= offset <= n.MAX_OFFSET:
        return f"offset is {short(offset)}; it must be a whole number from 0 to 2^63-1"
    if (
        not isinstance(transaction_id, str)
        or not 1 <= len(transaction_id) <= n.MAX_TRANSACTION_ID_LENGTH
    ):
        return f"transaction id is {short(transaction_id)}; it must be text of 1-128 characters"
    return None
