"""Halves: messages that are stored in `tx.half`, invisible until an op commits them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..errors import MalformedHalf
from . import names as n
from .record import Headers, Record, short, text

_MOST_DIGITS = 18
#: More characters than any fast id has.
_LONGEST_FAST_ID = 512


class HalfId(NamedTuple):
    """The identity of a transaction: the place of its half in the half topic."""

    queue: int
    offset: int

    def __str__(self) -> str:
        return f"{self.queue}:{self.offset}"


class Half(NamedTuple):
    """A half. `headers` are the user's own, in their order; `key` and `body` are untouched.

    `immunity_seconds` is the header's value if it is a whole number above 0, else None. `fast_id`
    is the transactional id by which the producer may commit the half itself, None without one.

    A half is a named tuple, frozen and the cheapest to make: the resolver makes one for each
    transaction.
    """

    transaction_id: str
    group: str
    topic: str
    born_at_ms: int
    key: bytes | None
    body: bytes | None
    headers: Headers
    real_qid: int | None = None
    immunity_seconds: int | None = None
    fast_id: str | None = None

    def to_record(self, half_topic: str, queue: int = -1) -> Record:
        """Encode as a record of the half topic."""
        headers: Headers = [
            (n.TRAN_MSG, b"true"),
            (n.UNIQ_KEY, self.transaction_id.encode()),
            (n.PGROUP, self.group.encode()),
            (n.REAL_TOPIC, self.topic.encode()),
            (n.BORN_TIMESTAMP, str(self.born_at_ms).encode()),
        ]
        if self.real_qid is not None:
            headers.append((n.REAL_QID, str(self.real_qid).encode()))
        if self.immunity_seconds is not None:
            immunity = str(self.immunity_seconds).encode()
            headers.append((n.CHECK_IMMUNITY_TIME_IN_SECONDS, immunity))
        if self.fast_id is not None:
            headers.append((n.FAST, self.fast_id.encode()))
        return Record(half_topic, self.key, self.body, headers + self.headers, queue)


def decode_half(
    key: bytes | None, body: bytes | None, headers: Headers, prefix: str = "tx."
) -> Half:
    """Decode a record of the half topic (or of a check topic, without its output headers).

    Raises `MalformedHalf` with the header's name and value.
    """
    protocol: dict[str, bytes | None] = {}
    user: Headers = []
    for header in headers:
        name = header[0]
        if name in n.HALF_HEADERS:
            if name in protocol:
                raise MalformedHalf(f"header {name} is repeated", remedy="send it once")
            protocol[name] = header[1]
        elif name in n.OUTPUT_HEADERS:
            raise MalformedHalf(f"header {name} is reserved for this system's outputs")
        else:
            user.append(header)
    if protocol.get(n.TRAN_MSG) != b"true":
        raise _illegal(n.TRAN_MSG, protocol, "must be 'true'")
    transaction_id, group = _transaction_id(protocol), _group(protocol, prefix)
    return Half(
        transaction_id=transaction_id,
        group=group,
        topic=_topic(protocol, prefix),
        born_at_ms=_born_at(protocol),
        key=key,
        body=body,
        headers=user,
        real_qid=_real_qid(protocol),
        immunity_seconds=parse_immunity(protocol.get(n.CHECK_IMMUNITY_TIME_IN_SECONDS)),
        fast_id=_fast_id(protocol, group, prefix),
    )


def parse_immunity(value: bytes | None) -> int | None:
    """Return the immunity in seconds if `value` is a whole number above 0, else None."""
    written = text(value) if value is not None else None
    if written is None or not _is_whole(written):
        return None
    return int(written) or None


def _transaction_id(protocol: dict[str, bytes | None]) -> str:
    value = _text(n.UNIQ_KEY, protocol)
    if not 1 <= len(value) <= n.MAX_TRANSACTION_ID_LENGTH:
        raise _illegal(n.UNIQ_KEY, protocol, "must have 1-128 characters")
    return value


def _group(protocol: dict[str, bytes | None], prefix: str) -> str:
    value = _text(n.PGROUP, protocol)
    if not n.legal_group(value):
        raise _illegal(n.PGROUP, protocol, "must be 1-200 of a-z A-Z 0-9 . _ -")
    return _not_under(prefix, n.PGROUP, value, protocol)


def _topic(protocol: dict[str, bytes | None], prefix: str) -> str:
    value = _text(n.REAL_TOPIC, protocol)
    if not n.legal_topic(value):
        raise _illegal(n.REAL_TOPIC, protocol, "must be a legal topic name")
    return _not_under(prefix, n.REAL_TOPIC, value, protocol)


def _not_under(prefix: str, name: str, value: str, protocol: dict[str, bytes | None]) -> str:
    if value.startswith(prefix):
        raise _illegal(name, protocol, f"must not be under the prefix {prefix!r}")
    return value


def _born_at(protocol: dict[str, bytes | None]) -> int:
    value = _text(n.BORN_TIMESTAMP, protocol)
    if not _is_whole(value):
        raise _illegal(n.BORN_TIMESTAMP, protocol, "must be milliseconds since 1970")
    return int(value)


def _real_qid(protocol: dict[str, bytes | None]) -> int | None:
    if n.REAL_QID not in protocol:
        return None
    value = _text(n.REAL_QID, protocol)
    if not _is_whole(value) or int(value) > n.MAX_PARTITION:
        raise _illegal(n.REAL_QID, protocol, "must be a partition's number")
    return int(value)


def _fast_id(protocol: dict[str, bytes | None], group: str, prefix: str) -> str | None:
    if n.FAST not in protocol:
        return None
    value = _text(n.FAST, protocol)
    if len(value) > _LONGEST_FAST_ID or not _is_fast_id(value, group, prefix):
        rule = f"must be {n.Names(prefix).fast_id(group, '')!r} and 1-64 of a-z A-Z 0-9 . _ -"
        raise _illegal(n.FAST, protocol, rule)
    return value


@lru_cache(maxsize=4096)  # a producer's halves have one id
def _is_fast_id(value: str, group: str, prefix: str) -> bool:
    return n.Names(prefix).is_fast_id(value, group)


def _text(name: str, protocol: dict[str, bytes | None]) -> str:
    try:
        return protocol[name].decode()  # type: ignore[union-attr]
    except KeyError:
        raise MalformedHalf(f"header {name} is missing") from None
    except (AttributeError, UnicodeDecodeError) as error:
        raise _illegal(name, protocol, "must be UTF-8 text") from error


def _is_whole(written: str) -> bool:
    return len(written) <= _MOST_DIGITS and written.isascii() and written.isdigit()


def _illegal(name: str, protocol: dict[str, bytes | None], rule: str) -> MalformedHalf:
    if name not in protocol:
        return MalformedHalf(f"header {name} is missing")
    return MalformedHalf(f"header {name} is {short(protocol[name])}; it {rule}")
