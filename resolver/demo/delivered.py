"""What was delivered: the messages of the real topic, as a consumer sees them."""

from __future__ import annotations

from ..protocol.names import HALF_OFFSET, PGROUP, UNIQ_KEY
from .orders import Content
from .reading import Read

#: What a commit adds to the user's headers.
_ADDED = frozenset({UNIQ_KEY, PGROUP, HALF_OFFSET})


def delivered_content(read: Read) -> tuple[str, Content]:
    """Return a message's transaction, or where it is if it names none, and what the user sent."""
    transaction_id = read.header(UNIQ_KEY) or f"(none, at {read.partition}:{read.offset})"
    headers = tuple(header for header in read.headers if header[0] not in _ADDED)
    return transaction_id, Content(read.key, read.value, headers)
