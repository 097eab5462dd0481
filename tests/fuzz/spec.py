"""What docs/protocol.md says of records, in other words than the code that is tested."""

from __future__ import annotations

import json
import re
from typing import Any

from resolver.protocol import Headers

_REQUIRED = {
    "TRAN_MSG": re.compile(rb"true"),
    "UNIQ_KEY": re.compile(rb"(?s).+"),
    "PGROUP": re.compile(rb"(?!tx\.)[a-zA-Z0-9._-]{1,200}"),
    "REAL_TOPIC": re.compile(rb"(?!\.{1,2}$)(?!tx\.)[a-zA-Z0-9._-]{1,249}"),
    "BORN_TIMESTAMP": re.compile(rb"[0-9]{1,18}"),
}
_PARTITION = re.compile(rb"[0-9]{1,18}")
_STATES = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOWN")


def is_half(headers: Headers) -> bool:
    """Whether headers, of which none is repeated or an output's, are those of a half."""
    of_name = dict(headers)
    fits = all(rule.fullmatch(of_name.get(name) or b"") for name, rule in _REQUIRED.items())
    return fits and _is_id(of_name["UNIQ_KEY"] or b"") and _is_partition(of_name)


def _is_id(value: bytes) -> bool:
    try:
        return 1 <= len(value.decode()) <= 128
    except UnicodeDecodeError:
        return False


def _is_partition(of_name: dict[str, bytes | None]) -> bool:
    value = of_name.get("REAL_QID") or b""
    is_number = _PARTITION.fullmatch(value) is not None and int(value) <= 2_147_483_647
    return is_number or "REAL_QID" not in of_name


def is_op(value: bytes) -> bool:
    """Whether a value is an op's, whatever its elements are."""
    try:
        op = json.loads(value.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(op, dict) and _is_op(op)


def _is_op(op: dict[str, Any]) -> bool:
    state, group, actor = op.get("state"), op.get("group"), op.get("actor")
    lists: tuple[Any, Any] = op.get("offsets"), op.get("transaction_ids")
    least = 0 if state == "UNKNOWN" and op.get("from_check") is True else 1
    return (
        state in _STATES
        and isinstance(group, str)
        and re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", group, re.ASCII) is not None
        and all(isinstance(values, list) and least <= len(values) <= 1_024 for values in lists)
        and len({len(values) for values in lists}) == 1
        and isinstance(op.get("from_check", False), bool)
        and isinstance(op.get("remark"), str | None)
        and (actor is None or (isinstance(actor, str) and actor != ""))
    )


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
