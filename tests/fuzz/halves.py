"""Records of the half topic: right ones, wrong in one known way, and of random bytes."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any, NamedTuple

from resolver.protocol import Headers, record_bytes

from .spec import is_half

_REQUIRED = ("TRAN_MSG", "UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP")
_OPTIONAL = ("REAL_QID", "CHECK_IMMUNITY_TIME_IN_SECONDS")
_OURS = frozenset((*_REQUIRED, *_OPTIONAL))
_RESERVED = (
    "HALF_OFFSET",
    "TRANSACTION_CHECK_TIMES",
    "REASON",
    "ERROR",
    "SOURCE",
    "ELEMENT",
    "TRUNCATED",
)
#: No value of any of the protocol's required headers, and of none but the transaction id.
_NEVER = [None, b"", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"x" * 5_000]
_NEVER_BUT_AN_ID = [*_NEVER, b"a b\x00", b"../..", b"tx/", b"\xd9\xa7"]
_NO_PARTITION = [None, b"", b"-1", b"+1", b"1.0", b"2147483648", b"9" * 19, b" 1", b"\xd9\xa1"]
#: What a producer takes by default, and some room.
_MAX_BYTES = 990_000
_IMMUNITIES = [None, b"", b"-1", b"0", b"\xff", b"9" * 40, b"3600", b"1e3", b"7 "]


class Half(NamedTuple):
    """A record of the half topic; `refused` is whether it must be."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    refused: bool
    transaction_id: str
    group: str
    topic: str

    @property
    def real_qid(self) -> int | None:
        return next((int(value or b"") for name, value in self.headers if name == "REAL_QID"), None)

    @property
    def user_headers(self) -> Headers:
        return [header for header in self.headers if header[0] not in _OURS]


def right(random: Random, topic: str, partitions: int) -> Half:
    """Return one that must be delivered, however odd; in a partition that may not be there."""
    transaction_id, group = str(uuid.UUID(int=random.getrandbits(128))), random.choice(["a", "b.c"])
    headers: Headers = [
        ("TRAN_MSG", b"true"),
        ("UNIQ_KEY", transaction_id.encode()),
        ("PGROUP", group.encode()),
        ("REAL_TOPIC", topic.encode()),
        ("BORN_TIMESTAMP", str(random.choice([0, 7, 10**18 - 1, 1_700_000_000_000])).encode()),
    ]
    if random.random() < 0.3:
        headers.append(("REAL_QID", str(random.choice([*range(partitions), 2**31 - 1])).encode()))
    if random.random() < 0.1:
        headers.append((_OPTIONAL[1], random.choice(_IMMUNITIES)))
    headers += _user_headers(random)
    random.shuffle(headers)
    key, value = _content(random, 40), _content(random, 2_000)
    if random.random() < 0.0005:
        value = bytes(900_000)
    return Half(key, value, headers, False, transaction_id, group, topic)


def wrong(random: Random, topic: str, partitions: int) -> Half:
    """Return one that must be refused: a right one with one fault or more, none of which mends."""
    made = right(random, topic, partitions)
    headers = made.headers
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        headers = random.choice(_FAULTS)(random, headers)
    if record_bytes(made.key, made.value, headers) > _MAX_BYTES:
        return wrong(random, topic, partitions)
    return made._replace(headers=headers, refused=True)


def of_bytes(random: Random, topic: str, partitions: int) -> Half:
    """Return one with bytes of a header changed: the spec says whether it is one still."""
    made = right(random, topic, partitions)
    # Not of the immunity: it is never wrong, and a short one would make ends late.
    positions = [
        position for position, (name, _) in enumerate(made.headers) if name != _OPTIONAL[1]
    ]
    position = random.choice(positions)
    name, value = made.headers[position]
    changed = bytearray(value or b"?")
    for _ in range(random.choice([1, 1, 2, 8])):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    headers = [*made.headers]
    headers[position] = (name, bytes(changed))
    if not is_half(headers):
        return made._replace(headers=headers, refused=True)
    fields = {name: (value or b"").decode() for name, value in headers if name in _REQUIRED}
    return made._replace(
        headers=headers,
        transaction_id=fields["UNIQ_KEY"],
        group=fields["PGROUP"],
        topic=fields["REAL_TOPIC"],
    )


def _content(random: Random, most: int) -> bytes | None:
    kind = random.random()
    if kind < 0.1:
        return None
    if kind < 0.2:
        return b""
    return random.randbytes(random.randrange(most if kind < 0.9 else 32))


def _user_headers(random: Random) -> Headers:
    count = random.choice([0, 0, 1, 2, 5, 300 if random.random() < 0.05 else 3])
    names = ["", "a", "a", "TAGS", "tran_msg", "κλειδί", "𝄞", "x" * 200, '"}]', "\\u0000", "\n"]
    return [(random.choice(names), _content(random, 30)) for _ in range(count)]


def _at_required(random: Random, headers: Headers) -> int:
    positions = [position for position, (name, _) in enumerate(headers) if name in _REQUIRED]
    return random.choice(positions) if positions else 0


def _without(random: Random, headers: Headers) -> Headers:
    position = _at_required(random, headers)
    return headers[:position] + headers[position + 1 :]


def _never(random: Random, headers: Headers) -> Headers:
    position = _at_required(random, headers)
    name = headers[position][0] if headers else "TRAN_MSG"
    values = _NEVER if name == "UNIQ_KEY" else _NEVER_BUT_AN_ID
    return [*headers[:position], (name, random.choice(values)), *headers[position + 1 :]]


def _again(random: Random, headers: Headers) -> Headers:
    ours = [header for header in headers if header[0] in _OURS]
    return [*headers, *ours * random.choice([1, 1, 60])][:1_000]


def _reserved(random: Random, headers: Headers) -> Headers:
    return [*headers, (random.choice(_RESERVED), random.choice([b"1", None, b"CHECK_MAX"]))]


def _no_partition(random: Random, headers: Headers) -> Headers:
    kept = [header for header in headers if header[0] != "REAL_QID"]
    return [*kept, ("REAL_QID", random.choice(_NO_PARTITION))]


def _noise(random: Random, headers: Headers) -> Headers:
    return [(random.randbytes(3).hex(), random.randbytes(9)) for _ in range(random.randrange(300))]


_FAULTS: list[Any] = [_without, _never, _again, _reserved, _no_partition, _noise]
