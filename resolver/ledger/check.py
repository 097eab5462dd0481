"""The table `check`: every check that asked a group for a transaction's outcome."""

from __future__ import annotations

from ..protocol import names as n
from .half import MESSAGE_FIELDS
from .reading import header_last, headers, offset_of, queue_of, whole_int
from .table import Field, Table

#: The half that a record is about, by the resolver's own headers.
ABOUT_HALF_FIELDS = (
    Field(
        "queue",
        "int",
        "Queue of the half",
        lambda: queue_of(header_last(n.HALF_OFFSET, headers())),
    ),
    Field(
        "offset",
        "bigint",
        "Offset of the half",
        lambda: offset_of(header_last(n.HALF_OFFSET, headers())),
    ),
    *MESSAGE_FIELDS,
    Field(
        "checks",
        "int",
        "Checks sent for it so far",
        lambda: whole_int(header_last(n.TRANSACTION_CHECK_TIMES, headers())),
    ),
)

CHECK = Table(
    name="check",
    topic="check.",
    comment="Check requests: what became of this transaction?",
    own_fields=ABOUT_HALF_FIELDS,
)
