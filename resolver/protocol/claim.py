"""Claims of operators in `tx.operation`: on which transactions an operation has acted.

A claim is in the same Kafka transaction as the records of the act. So it is there exactly if they
are, and of two claims of a half the first in the topic wins.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import orjson

from ..errors import ProtocolError
from .names import Names
from .record import Record, short


class Act(str, Enum):
    """The kinds of operations."""

    SETTLE = "settle"
    RESUME = "resume"
    ASK = "ask"
    REPLAY = "replay"
    #: Acts on the tables alone: it has no claim.
    ERASE = "erase"


class Claim(NamedTuple):
    """The transactions that an operation acts on in one Kafka transaction, by their half ids."""

    operation: str
    act: Act
    actor: str
    halves: tuple[str, ...]

    def to_record(self, names: Names) -> Record:
        """Encode as a record of the operation topic."""
        key = self.operation.encode()
        return Record(names.operation, key, orjson.dumps(self._asdict()), [], 0)


def decode_claim(value: bytes | None) -> Claim:
    """Decode a record of the operation topic; unknown fields are ignored.

    Only operators write the topic: `ProtocolError` says that another client did.
    """
    try:
        fields = orjson.loads(value or b"")
        operation, act, actor = fields["operation"], Act(fields["act"]), fields["actor"]
        halves = tuple(fields["halves"])
        if not all(isinstance(text, str) for text in (operation, actor, *halves)):
            raise TypeError("a field is no text")
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{short(value)} is no claim of an operator: {error}") from error
    return Claim(operation, act, actor, halves)
