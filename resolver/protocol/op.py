"""Op messages: commit, rollback or unknown, pointing at halves by their queue offset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import orjson

from ..errors import MalformedOp
from . import names as n
from .record import Headers, Record, short

#: Of an actor, in what is said of an element that is refused.
_ACTOR_CHARACTERS = 200


class TransactionStatus(str, Enum):
    """What is known of a local transaction."""

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOWN"


_STATES = {status.value: status for status in TransactionStatus}


class Element(NamedTuple):
    """One half's end within an op: its place there, the half's offset and transaction id."""

    position: int
    offset: int
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Op:
    """An op: one state for many halves of one queue, each element judged on its own.

    `malformed` holds the refused elements: their index and why.
    """

    state: TransactionStatus
    group: str
    elements: tuple[Element, ...]
    from_check: bool = False
    remark: str | None = None
    actor: str | None = None
    malformed: tuple[tuple[int, str], ...] = ()

    def about(self, *elements: Element) -> Op:
        """Return the op with only these elements, and with none of its texts that may be long.

        What is kept or said of each element may not grow with what else its op has.
        """
        actor = self.actor and self.actor[:_ACTOR_CHARACTERS]
        return Op(self.state, self.group, elements, self.from_check, None, actor)

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
            # Anybody's text, which may hold what UTF-8 can't: a remark must not fail.
            "remark": self.remark and self.remark.encode("utf-8", "replace").decode(),
        }
        if self.actor is not None:
            body["actor"] = self.actor
        return orjson.dumps(body)


def fence_record(op_topic: str, queue: int) -> Record:
    """Return a fence: an empty record that only moves the queue's watermark."""
    return Record(op_topic, None, b"", [(n.TAGS, n.FENCE_TAG)], queue)


def is_fence(value: bytes | None, headers: Headers | None) -> bool:
    """Whether a record of the op topic is a fence."""
    return not value and headers == [(n.TAGS, n.FENCE_TAG)]


def decode_op(value: bytes | None, headers: Headers) -> Op:
    """Decode a record of the op topic that is no fence.

    Raises `MalformedOp` if the record as a whole is refused; refused elements are in `malformed`.
    Fields that are not known are passed over.
    """
    tags = [value for name, value in headers if name == n.TAGS]
    if tags != [n.OP_TAG]:
        found = short(tags[0]) if len(tags) == 1 else f"there {len(tags)} times"
        raise MalformedOp(f"header TAGS is {found}; an op has it once, as b'd'")
    body = _body(value)
    offsets, ids = _list(body, "offsets"), _list(body, "transaction_ids")
    if len(offsets) != len(ids) or not offsets:
        raise MalformedOp(
            f"{len(offsets)} offsets and {len(ids)} transaction_ids; an op needs as many of "
            "each, at least one"
        )
    if len(offsets) > n.MAX_OP_ELEMENTS:
        raise MalformedOp(
            f"{len(offsets)} elements; an op has at most {n.MAX_OP_ELEMENTS}: send several"
        )
    elements: list[Element] = []
    malformed: list[tuple[int, str]] = []
    for index, (offset, transaction_id) in enumerate(zip(offsets, ids, strict=True)):
        error = _element_error(offset, transaction_id)
        if error is None:
            elements.append(Element(index, offset, transaction_id))
        else:
            malformed.append((index, error))
    return Op(
        state=_state(body),
        group=_group(body),
        elements=tuple(elements),
        from_check=_flag(body, "from_check"),
        remark=_optional_text(body, "remark"),
        actor=_actor(body),
        malformed=tuple(malformed),
    )


def _body(value: bytes | None) -> dict[str, Any]:
    try:
        # In brackets: where two blanks follow the first one, and dense JSON follows them, orjson
        # since 3.11 sets too little memory aside, and refuses what is right.
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
    # An enum would write out what it does not know: that may be nested too deep.
    if not isinstance(state, str) or state not in _STATES:
        raise MalformedOp(f"state is {short(state)}; it must be {', '.join(_STATES)}")
    return _STATES[state]


def _group(body: dict[str, Any]) -> str:
    group = body.get("group")
    if not isinstance(group, str) or not n.legal_group(group):
        raise MalformedOp(f"group is {short(group)}; it must be 1-200 of a-z A-Z 0-9 . _ -")
    return group


def _list(body: dict[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list):
        raise MalformedOp(f"{name} is {short(value)}; it must be a list")
    return value


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
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
