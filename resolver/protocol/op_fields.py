"""Legal values of an op's fields.

An illegal value raises `MalformedOp`. An illegal element is returned as an error.
"""

from __future__ import annotations

from typing import Any

import orjson

from ..errors import MalformedOp
from . import names as n
from .record import short
from .status import TransactionStatus

_STATES = {status.value: status for status in TransactionStatus}


def body(value: bytes | None) -> dict[str, Any]:
    """Return the JSON object of an op."""
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


def state(body: dict[str, Any]) -> TransactionStatus:
    """Return the state that the op reports."""
    state = body.get("state")
    # Look the state up here. The enum would quote an unknown value in its error, and the value may
    # be nested too deep to be written.
    if not isinstance(state, str) or state not in _STATES:
        raise MalformedOp(f"state is {short(state)}; it must be {', '.join(_STATES)}")
    return _STATES[state]


def group(body: dict[str, Any]) -> str:
    """Return the group, whose name is legal."""
    group = body.get("group")
    if not isinstance(group, str) or not n.legal_group(group):
        raise MalformedOp(f"group is {short(group)}; it must be 1-200 of a-z A-Z 0-9 . _ -")
    return group


def may_announce(body: dict[str, Any]) -> bool:
    """Whether the op may name no half, as the announcement of an agent."""
    return body.get("state") == "UNKNOWN" and body.get("from_check") is True


def list_of(body: dict[str, Any], name: str) -> list[Any]:
    """Return a field that is a list."""
    value = body.get(name)
    if not isinstance(value, list):
        raise MalformedOp(f"{name} is {short(value)}; it must be a list")
    return value


def flag(body: dict[str, Any], name: str, absent: bool = False) -> bool:
    """Return a field that is true or false; `absent` where the op lacks it."""
    value = body.get(name, absent)
    if not isinstance(value, bool):
        raise MalformedOp(f"{name} is {short(value)}; it must be true or false")
    return value


def optional_text(body: dict[str, Any], name: str) -> str | None:
    """Return a field that is text; None where the op lacks it."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise MalformedOp(f"{name} is {short(value)}; it must be text or null")
    return value


def actor(body: dict[str, Any]) -> str | None:
    """Return the operator who wrote the op; None if a producer or an agent did."""
    actor = optional_text(body, "actor")
    if actor == "":
        raise MalformedOp("actor is ''; it must name an operator, or be null")
    return actor


def element_error(offset: Any, transaction_id: Any) -> str | None:
    """Return why an element is refused; None for a legal one."""
    if type(offset) is not int or not 0 <= offset <= n.MAX_OFFSET:
        return f"offset is {short(offset)}; it must be a whole number from 0 to 2^63-1"
    if (
        not isinstance(transaction_id, str)
        or not 1 <= len(transaction_id) <= n.MAX_TRANSACTION_ID_LENGTH
    ):
        return f"transaction id is {short(transaction_id)}; it must be text of 1-128 characters"
    return None
