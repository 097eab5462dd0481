"""Check requests: the resolver writes them, and an agent of the group reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import MalformedHalf
from . import names as n
from .half import Half, HalfId, StoredHalf, decode_half
from .record import Headers, Record, short

_HALF_OFFSET = re.compile(rb"([0-9]{1,10}):([0-9]{1,19})")
_TIMES = re.compile(rb"([0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Check:
    """The question about a half that no op has ended in time; `times` counts its checks, from 1.

    `truncated` is true where the half did not fit into its check: body and headers are cut here,
    and a key that is too long is None.
    """

    half: Half
    half_id: HalfId
    times: int
    truncated: bool = False


def check_record(stored_half: StoredHalf, checks: int, names: n.Names) -> Record:
    """Return the check that asks the group about a transaction.

    The half's key is the first header: there a user's header of that name can't be taken for it.
    """
    return Record(
        names.check(stored_half.half.group),
        stored_half.half.transaction_id.encode(),
        stored_half.half.body,
        [
            (n.KEY, stored_half.half.key),
            *stored_half.all_headers,
            *check_headers(stored_half, checks),
        ],
    )


def check_headers(stored_half: StoredHalf, checks: int) -> Headers:
    """Return the headers that say how often a half was checked, and which half it is."""
    return [
        (n.TRANSACTION_CHECK_TIMES, str(checks).encode()),
        (n.HALF_OFFSET, stored_half.half_offset.encode()),
    ]


def decode_check(body: bytes | None, headers: Headers, prefix: str = "tx.") -> Check:
    """Decode a record of a check topic; raises `MalformedHalf`.

    The record's own key is the transaction id: the message's key is the first header.
    """
    key = None
    if headers and headers[0][0] == n.KEY:
        key, headers = headers[0][1], headers[1:]
    marks: dict[str, bytes | None] = {}
    half_headers: Headers = []
    for name, value in headers:
        if name not in n.OUTPUT_HEADERS:
            half_headers.append((name, value))
        elif name in marks:
            raise MalformedHalf(f"header {name} of a check is repeated")
        else:
            marks[name] = value
    half_id = HalfId(*_numbers(n.HALF_OFFSET, marks, _HALF_OFFSET))
    (times,) = _numbers(n.TRANSACTION_CHECK_TIMES, marks, _TIMES)
    half = decode_half(key, body, half_headers, prefix)
    return Check(half, half_id, times, truncated=marks.get(n.TRUNCATED) == b"true")


def _numbers(name: str, marks: dict[str, bytes | None], form: re.Pattern[bytes]) -> list[int]:
    match = form.fullmatch(marks.get(name) or b"")
    if match is None:
        raise MalformedHalf(
            f"header {name} of a check is {short(marks.get(name))}; it must be {form.pattern!r}"
        )
    return [int(number) for number in match.groups()]
