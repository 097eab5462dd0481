"""Check requests, as the agent reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import MalformedHalf
from . import names as n
from .half import Half, decode_half
from .record import Headers, short

_HALF_OFFSET = re.compile(rb"([0-9]{1,10}):([0-9]{1,19})")
_TIMES = re.compile(rb"([0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Check:
    """A request to say what became of a transaction; `times` counts from 1.

    `truncated`: the half did not fit into its check, and is here cut.
    """

    half: Half
    queue: int
    offset: int
    times: int
    truncated: bool = False


def decode_check(body: bytes | None, headers: Headers, prefix: str = "tx.") -> Check:
    """Decode a record of a check topic; raises `MalformedHalf`.

    The message's own key is not in a check (the transaction id is the record's key).
    """
    marks: dict[str, bytes | None] = {}
    rest: Headers = []
    for name, value in headers:
        if name not in n.OUTPUT_HEADERS:
            rest.append((name, value))
        elif name in marks:
            raise MalformedHalf(f"header {name} of a check is repeated")
        else:
            marks[name] = value
    queue, offset = _numbers(n.HALF_OFFSET, marks, _HALF_OFFSET)
    (times,) = _numbers(n.TRANSACTION_CHECK_TIMES, marks, _TIMES)
    half = decode_half(None, body, rest, prefix)
    return Check(half, queue, offset, times, truncated=marks.get(n.TRUNCATED) == b"true")


def _numbers(name: str, marks: dict[str, bytes | None], form: re.Pattern[bytes]) -> list[int]:
    match = form.fullmatch(marks.get(name) or b"")
    if match is None:
        raise MalformedHalf(
            f"header {name} of a check is {short(marks.get(name))}; it must be {form.pattern!r}"
        )
    return [int(number) for number in match.groups()]
