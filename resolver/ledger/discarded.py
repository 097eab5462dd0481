"""The table `discarded`: messages that were given up or could not be delivered."""

from __future__ import annotations

from ..protocol import names as n
from .check import ABOUT_HALF_FIELDS
from .reading import header_last, headers
from .table import Field, Table

DISCARDED = Table(
    name="discarded",
    topic="discarded",
    comment="Messages given up: after too many checks, too old, or undeliverable.",
    own_fields=(
        *ABOUT_HALF_FIELDS,
        Field(
            "reason",
            "string",
            "CHECK_MAX, EXPIRED or UNDELIVERABLE",
            lambda: header_last(n.REASON, headers()),
        ),
        Field(
            "error", "string", "why it is undeliverable", lambda: header_last(n.ERROR, headers())
        ),
    ),
)
