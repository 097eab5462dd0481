"""Records of `tx.discarded`: messages that were given up, or that can't be delivered."""

from __future__ import annotations

from enum import Enum

from . import names as n
from .check import check_headers
from .half import StoredHalf
from .record import Headers, Record


class DiscardReason(str, Enum):
    """The reason why a message is in `tx.discarded`."""

    CHECK_MAX = "CHECK_MAX"
    EXPIRED = "EXPIRED"
    UNDELIVERABLE = "UNDELIVERABLE"


def discarded_record(
    stored_half: StoredHalf, checks: int, reason: DiscardReason, error: str | None, names: n.Names
) -> Record:
    """Return the record for `tx.discarded` of a message that was given up or can't be delivered."""
    headers: Headers = [
        # Nobody delivers this half any more. An operator may bring it back as a new one.
        *[header for header in stored_half.all_headers if header[0] != n.FAST],
        *check_headers(stored_half, checks),
        (n.REASON, reason.value.encode()),
    ]
    if error is not None:
        headers.append((n.ERROR, error.encode()))
    return Record(names.discarded, stored_half.half.key, stored_half.half.body, headers)
