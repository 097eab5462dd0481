"""Outcomes of transactions, as resolutions state them.

`half.py` has the commit that consumers read. `check.py`, `discarded.py` and `refused.py` have the
other records that the resolver writes.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import orjson

from ..errors import ProtocolError
from .record import Record, short


class Outcome(str, Enum):
    """The outcome of a transaction."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    DISCARD = "DISCARD"
    UNDELIVERABLE = "UNDELIVERABLE"


class Source(str, Enum):
    """Who ended it: the application, its answer to a check, an operator, a limit, delivery."""

    END = "END"
    CHECK = "CHECK"
    OPERATOR = "OPERATOR"
    LIMIT = "LIMIT"
    DELIVERY = "DELIVERY"


#: Value of `delivery` where the producer wrote the message together with its op.
FAST_DELIVERY = "FAST"


class Resolution(NamedTuple):
    """The outcome of one transaction. Times are in ms since 1970.

    `ended_at` is the LogAppendTime of the op that ended the transaction. `delivery` is
    `FAST_DELIVERY` if the producer has delivered the message itself, None if the resolver has.
    """

    transaction_id: str
    queue: int
    offset: int
    outcome: Outcome
    source: Source
    group: str
    topic: str
    op_offset: int | None
    checks: int
    answered: int
    born_at: int
    stored_at: int
    ended_at: int | None
    decided_at: int
    batch_id: int
    query_id: str
    delivery: str | None = None

    def to_record(self, resolution_topic: str) -> Record:
        """Encode as a record of the resolution topic."""
        body = self._asdict()
        if self.delivery is None:
            del body["delivery"]
        return Record(resolution_topic, self.transaction_id.encode(), orjson.dumps(body), [])


def decode_resolution(value: bytes | None) -> Resolution:
    """Decode a record of the resolution topic; unknown fields are ignored.

    Only this system writes the topic: `ProtocolError` says that another client did.
    """
    try:
        body: dict[str, Any] = orjson.loads(value or b"")
        fields = {name: body[name] for name in Resolution._fields if name != "delivery"}
        fields["delivery"] = body.get("delivery")
        fields["outcome"] = Outcome(fields["outcome"])
        fields["source"] = Source(fields["source"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{short(value)} is no resolution: {short(str(error))}") from error
    return Resolution(**fields)
