"""Legal values of a half's protocol headers.

An illegal value raises `MalformedHalf`. An illegal immunity counts as none.
"""

from __future__ import annotations

from functools import lru_cache

from ..errors import MalformedHalf
from . import names as n
from .record import short, text

#: Protocol headers of one half, by name.
HeaderValues = dict[str, bytes | None]

_MOST_DIGITS = 18
#: More characters than any fast id has.
_LONGEST_FAST_ID = 512


def immunity(value: bytes | None) -> int | None:
    """Return the immunity in seconds if `value` is a whole number above 0, else None."""
    written = text(value) if value is not None else None
    if written is None or not _is_whole(written):
        return None
    return int(written) or None


def transaction_id(protocol: HeaderValues) -> str:
    """Return the transaction id, of 1 to 128 characters."""
    value = _text(n.UNIQ_KEY, protocol)
    if not 1 <= len(value) <= n.MAX_TRANSACTION_ID_LENGTH:
        raise illegal(n.UNIQ_KEY, protocol, "must have 1-128 characters")
    return value


def group(protocol: HeaderValues, prefix: str) -> str:
    """Return the producer group, whose name is legal and not under the prefix."""
    value = _text(n.PGROUP, protocol)
    if not n.legal_group(value):
        raise illegal(n.PGROUP, protocol, "must be 1-200 of a-z A-Z 0-9 . _ -")
    return _not_under(prefix, n.PGROUP, value, protocol)


def topic(protocol: HeaderValues, prefix: str) -> str:
    """Return the real topic, whose name is legal and not under the prefix."""
    value = _text(n.REAL_TOPIC, protocol)
    if not n.legal_topic(value):
        raise illegal(n.REAL_TOPIC, protocol, "must be a legal topic name")
    return _not_under(prefix, n.REAL_TOPIC, value, protocol)


def _not_under(prefix: str, name: str, value: str, protocol: HeaderValues) -> str:
    if value.startswith(prefix):
        raise illegal(name, protocol, f"must not be under the prefix {prefix!r}")
    return value


def born_at(protocol: HeaderValues) -> int:
    """Return the time at which the half was made, in ms since 1970 by its sender's clock."""
    value = _text(n.BORN_TIMESTAMP, protocol)
    if not _is_whole(value):
        raise illegal(n.BORN_TIMESTAMP, protocol, "must be milliseconds since 1970")
    return int(value)


def real_qid(protocol: HeaderValues) -> int | None:
    """Return the real partition, or None for any."""
    if n.REAL_QID not in protocol:
        return None
    value = _text(n.REAL_QID, protocol)
    if not _is_whole(value) or int(value) > n.MAX_PARTITION:
        raise illegal(n.REAL_QID, protocol, "must be a partition's number")
    return int(value)


def fast_id(protocol: HeaderValues, group: str, prefix: str) -> str | None:
    """Return the fast id, which is of the group; None without one."""
    if n.FAST not in protocol:
        return None
    value = _text(n.FAST, protocol)
    if len(value) > _LONGEST_FAST_ID or not _is_fast_id(value, group, prefix):
        rule = f"must be {n.Names(prefix).fast_id(group, '')!r} and 1-64 of a-z A-Z 0-9 . _ -"
        raise illegal(n.FAST, protocol, rule)
    return value


@lru_cache(maxsize=4096)  # a producer's halves have one id
def _is_fast_id(value: str, group: str, prefix: str) -> bool:
    return n.Names(prefix).is_fast_id(value, group)


def _text(name: str, protocol: HeaderValues) -> str:
    try:
        return protocol[name].decode()  # type: ignore[union-attr]
    except KeyError:
        raise MalformedHalf(f"header {name} is missing") from None
    except (AttributeError, UnicodeDecodeError) as error:
        raise illegal(name, protocol, "must be UTF-8 text") from error


def _is_whole(written: str) -> bool:
    return len(written) <= _MOST_DIGITS and written.isascii() and written.isdigit()


def illegal(name: str, protocol: HeaderValues, rule: str) -> MalformedHalf:
    """Return the error of a header that is missing or breaks its rule."""
    if name not in protocol:
        return MalformedHalf(f"header {name} is missing")
    return MalformedHalf(f"header {name} is {short(protocol[name])}; it {rule}")
