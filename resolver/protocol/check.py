"""Check requests, as the agent reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import MalformedHalf
from . import names as n
from .half import Half, decode_half
from .record import Headers


@dataclass(frozen=True, slots=True)
class Check:
    """A request to say what became of a transaction; `times` counts from 1."""

    half: Half
    queue: int
    offset: int
    times: int


def decode_check(body: bytes | None, headers: Headers, prefix: str = "tx.") -> Check:
    """Decode a record of a check topic; raises `MalformedHalf`.

    The message's own key is not in a check (the transaction id is the record's key).
    """
    marks = {name: value for name, value in headers if name in n.OUTPUT_HEADERS}
    rest = [header for header in headers if header[0] not in n.OUTPUT_HEADERS]
    try:
        queue, offset = (marks[n.HALF_OFFSET] or b"").decode().split(":")
        times = int(marks[n.TRANSACTION_CHECK_TIMES] or b"")
        return Check(decode_half(None, body, rest, prefix), int(queue), int(offset), times)
    except (KeyError, ValueError) as error:
        raise MalformedHalf(
            f"a check needs HALF_OFFSET and TRANSACTION_CHECK_TIMES: {error}"
        ) from error
