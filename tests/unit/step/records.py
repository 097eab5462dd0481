"""Records of the half and op topics for tests: their bytes, and beside them what they mean.

The bytes are written here from docs/protocol.md's words, not by the library's encoders.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from resolver.protocol import Half, Headers, StoredRecord, TransactionStatus, record_bytes

from .vocabulary import FENCE, FENCE_SECRET, QUEUE, Ends, HalfRead, OpRead, Plan, Revoked, Rules

#: What stands in CHECK_IMMUNITY_TIME_IN_SECONDS, and the immunity that it gives.
IMMUNITIES: list[tuple[bytes | None, int | None]] = [
    (b"1", 1),
    (b"7", 7),
    (b"3", 3),
    (b"002", 2),
    (b"0", None),
    (b"-1", None),
    (b"100.5", None),
    (b"+7", None),
    (b" 7", None),
    (b"", None),
    (None, None),
    (b"\xff7", None),
    ("\u0667".encode(), None),
    (b"999999999999999999", 999_999_999_999_999_999),
    (b"9" * 40, None),
]

#: An element of an op that is refused alone: its offset and its transaction id.
MALFORMED_ELEMENTS: list[tuple[Any, Any]] = [
    (-1, "id"),
    ("5", "id"),
    (1.5, "id"),
    (True, "id"),
    (None, "id"),
    (2**63, "id"),
    ([1], "id"),
    (1, ""),
    (1, None),
    (1, 5),
    (1, "x" * 129),
]


class Sent(NamedTuple):
    """A record as Kafka stored it, and what it means to the model."""

    offset: int
    stored_at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    means: HalfRead | OpRead

    @property
    def half_read(self) -> HalfRead:
        """What a record of the half topic means."""
        assert isinstance(self.means, HalfRead)
        return self.means

    @property
    def half(self) -> Half:
        """The half that a good record is."""
        meant = self.half_read.half
        assert meant is not None
        return meant

    @property
    def op_read(self) -> OpRead:
        """What a record of the op topic means."""
        assert isinstance(self.means, OpRead)
        return self.means


def half(
    offset: int,
    stored_at_ms: int,
    transaction_id: str | None = None,
    group: str = "g0",
    *,
    key: bytes | None = None,
    body: bytes | None = b"body",
    user: Sequence[tuple[str, bytes | None]] = (),
    real_qid: int | None = None,
    immunity: tuple[bytes | None, int | None] | None = None,
    fast: str | None = None,
) -> Sent:
    """Return a good half; `immunity` is the header's bytes and what they mean.

    `fast` is what the producer names its fast id, after the group.
    """
    meant = Half(
        transaction_id or f"id-{offset}",
        group,
        "orders",
        stored_at_ms,
        key,
        body,
        list(user),
        real_qid,
        immunity[1] if immunity else None,
        fast_id(fast, group) if fast else None,
    )
    headers = _half_headers(meant)
    if immunity:
        headers.insert(2, ("CHECK_IMMUNITY_TIME_IN_SECONDS", immunity[0]))
    headers += user
    means = HalfRead(offset, stored_at_ms, meant, headers)
    return Sent(offset, stored_at_ms, key, body, headers, means)


def fast_id(name: str, group: str = "g0") -> str:
    """Return the fast id of a group's producer."""
    return f"tx.fast:{group}:{name}"


def _half_headers(meant: Half) -> Headers:
    headers: Headers = [
        ("TRAN_MSG", b"true"),
        ("UNIQ_KEY", meant.transaction_id.encode()),
        ("PGROUP", meant.group.encode()),
        ("REAL_TOPIC", meant.topic.encode()),
        ("BORN_TIMESTAMP", str(meant.born_at_ms).encode()),
    ]
    if meant.real_qid is not None:
        headers.append(("REAL_QID", str(meant.real_qid).encode()))
    if meant.fast_id is not None:
        headers.append(("FAST", meant.fast_id.encode()))
    return headers


def _with(name: str, value: bytes | None) -> Any:
    return lambda headers: [(n, value if n == name else v) for n, v in headers]


def _without(name: str) -> Any:
    return lambda headers: [(n, v) for n, v in headers if n != name]


def _plus(name: str, value: bytes | None) -> Any:
    return lambda headers: [*headers, (name, value)]


_REQUIRED = ("TRAN_MSG", "UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP")
_RESERVED = ("HALF_OFFSET", "TRANSACTION_CHECK_TIMES", "REASON", "ERROR", "SOURCE", "ELEMENT")
#: What makes a good half's headers malformed, one way each.
MALFORMED_HALVES = [
    lambda headers: [],
    *(_without(name) for name in _REQUIRED),
    *(_with(name, None) for name in _REQUIRED),
    *(_with(name, b"\xff\xfe") for name in _REQUIRED),
    *(_plus(name, b"true") for name in _REQUIRED),
    *(_plus(name, b"1") for name in _RESERVED),
    _with("TRAN_MSG", b"false"),
    _with("UNIQ_KEY", b""),
    _with("UNIQ_KEY", b"x" * 129),
    _with("PGROUP", b"a/b"),
    _with("PGROUP", b"g" * 201),
    _with("REAL_TOPIC", b".."),
    _with("REAL_TOPIC", b"tx.op"),
    _with("REAL_TOPIC", b"t" * 250),
    _with("BORN_TIMESTAMP", b"-5"),
    _with("BORN_TIMESTAMP", b"now"),
    _plus("REAL_QID", b"-1"),
    _plus("REAL_QID", b"one"),
    _plus("REAL_QID", str(2**31).encode()),
    _plus("REAL_QID", None),
    _plus("FAST", None),
    _plus("FAST", b"tx.fast:g0:"),
    _plus("FAST", b"tx.fast:g1:a"),
    _plus("FAST", b"tx.fast:g0:a:b"),
    _plus("FAST", b"tx.resolver"),
]


def malformed_half(offset: int, stored_at_ms: int, kind: int) -> Sent:
    """Return a half that is malformed in one of the `MALFORMED_HALVES` ways."""
    good = half(offset, stored_at_ms)
    headers = MALFORMED_HALVES[kind % len(MALFORMED_HALVES)](good.headers)
    means = HalfRead(offset, stored_at_ms, None, headers)
    return good._replace(headers=headers, means=means)


_OP_TAG: Headers = [("TAGS", b"d")]


def op(
    offset: int,
    stored_at_ms: int,
    elements: Sequence[tuple[Any, Any]],
    state: str = "COMMIT_MESSAGE",
    group: str = "g0",
    *,
    from_check: bool = False,
    actor: str | None = None,
    remark: str | None = None,
    more_headers: Headers | None = None,
    delivered: bool = False,
    fast: bool = True,
) -> Sent:
    """Return an op whose elements are (half offset, transaction id), malformed ones among them."""
    body: dict[str, Any] = {
        "state": state,
        "group": group,
        "offsets": [half_offset for half_offset, _ in elements],
        "transaction_ids": [transaction_id for _, transaction_id in elements],
        "from_check": from_check,
        "remark": remark,
    }
    if actor is not None:
        body["actor"] = actor
    if delivered:
        body["delivered"] = True
    if not fast:
        body["fast"] = False
    meant = tuple(None if e in MALFORMED_ELEMENTS and _odd(e) else e for e in elements)
    says = Ends(TransactionStatus(state), group, meant, from_check, actor, delivered, fast)
    headers = [*_OP_TAG, *(more_headers or [])]
    return _sent_op(offset, stored_at_ms, json.dumps(body).encode(), headers, says)


def _odd(element: tuple[Any, Any]) -> bool:
    """Whether an element is malformed indeed: 1 == True, so equality does not say it."""
    return type(element[0]) is not int or not 0 <= element[0] < 2**63 or element[1] != "id"


def _sent_op(
    offset: int, stored_at_ms: int, value: bytes | None, headers: Headers, says: Any
) -> Sent:
    size = record_bytes(None, value, headers)
    means = OpRead(offset, stored_at_ms, says, size)
    return Sent(offset, stored_at_ms, None, value, headers, means)


def fence(offset: int, stored_at_ms: int, *, null: bool = False) -> Sent:
    """Return a fence; its empty value may be null."""
    value = None if null else b""
    return _sent_op(offset, stored_at_ms, value, [("TAGS", b"fence")], FENCE)


def revoked(
    offset: int, stored_at_ms: int, fast_id: str, queue: int = QUEUE, secret: str = FENCE_SECRET
) -> Sent:
    """Return the record that a fast id is revoked; with another queue or secret it is forged."""
    said = f"revoked:{queue}:{fast_id}".encode()
    body = {"fast": fast_id, "mac": hmac.new(secret.encode(), said, "sha256").hexdigest()}
    is_ours = (queue, secret) == (QUEUE, FENCE_SECRET)
    says = Revoked(fast_id if is_ours else None)
    return _sent_op(offset, stored_at_ms, json.dumps(body).encode(), [("TAGS", b"revoked")], says)


def half_fence(
    offset: int, stored_at_ms: int, ops_end: int, queue: int = QUEUE, secret: str = FENCE_SECRET
) -> Sent:
    """Return a fence of the half topic: the halves of all ops before `ops_end` are before it."""
    mac = hmac.new(secret.encode(), f"{queue}:{ops_end}".encode(), "sha256").hexdigest()
    headers: Headers = [("TAGS", b"fence")]
    is_ours = (queue, secret) == (QUEUE, FENCE_SECRET)
    means = HalfRead(offset, stored_at_ms, None, headers, ops_end if is_ours else 0)
    value = json.dumps({"ops": ops_end, "mac": mac}).encode()
    return Sent(offset, stored_at_ms, None, value, headers, means)


_GOOD_OP = {
    "state": "COMMIT_MESSAGE",
    "group": "g0",
    "offsets": [0],
    "transaction_ids": ["id-0"],
    "from_check": False,
    "remark": None,
}


def _body(**changed: Any) -> bytes:
    return json.dumps({k: v for k, v in (_GOOD_OP | changed).items() if v != "-"}).encode()


#: Records of the op topic that are refused as a whole: value and headers.
MALFORMED_OPS: list[tuple[bytes | None, Headers]] = [
    (None, []),
    (b"", _OP_TAG),
    (None, _OP_TAG),
    (b"\x00\xff", _OP_TAG),
    (b"{", _OP_TAG),
    (b"[1]", _OP_TAG),
    (b"null", _OP_TAG),
    (_body(), []),
    (_body(), [("TAGS", None)]),
    (_body(), [("TAGS", b"e")]),
    (_body(), [("TAGS", b"fence")]),
    (_body(), _OP_TAG * 2),
    (b"", [("TAGS", b"fence"), ("TAGS", b"fence")]),
    (b"", [("TAGS", b"fence"), ("more", b"")]),
    (_body(state="COMMIT"), _OP_TAG),
    (_body(state="-"), _OP_TAG),
    (_body(state=None), _OP_TAG),
    (_body(state=1), _OP_TAG),
    (_body(group="-"), _OP_TAG),
    (_body(group=""), _OP_TAG),
    (_body(group="a b"), _OP_TAG),
    (_body(group="g" * 201), _OP_TAG),
    (_body(offsets="-"), _OP_TAG),
    (_body(offsets=0), _OP_TAG),
    (_body(offsets=[]), _OP_TAG),
    (_body(offsets=[], transaction_ids=[]), _OP_TAG),
    (_body(offsets=[0, 1]), _OP_TAG),
    (_body(offsets=[0] * 1025, transaction_ids=["id-0"] * 1025), _OP_TAG),
    (_body(transaction_ids="-"), _OP_TAG),
    (_body(transaction_ids="id-0"), _OP_TAG),
    (_body(from_check="true"), _OP_TAG),
    (_body(from_check=1), _OP_TAG),
    (_body(from_check=None), _OP_TAG),
    (_body(actor=5), _OP_TAG),
    (_body(remark=["x"]), _OP_TAG),
    (_body(delivered=1), _OP_TAG),
    (_body(delivered=True, state="ROLLBACK_MESSAGE"), _OP_TAG),
    (_body(delivered=True, from_check=True), _OP_TAG),
    (_body(delivered=True, actor="anna"), _OP_TAG),
    (_body(fast=False), _OP_TAG),
    (_body(fast=False, state="UNKNOWN", from_check=True), _OP_TAG),
    (_body(), [("TAGS", b"revoked"), ("more", b"")]),
]


def malformed_op(offset: int, stored_at_ms: int, kind: int) -> Sent:
    """Return one of the `MALFORMED_OPS`."""
    value, headers = MALFORMED_OPS[kind % len(MALFORMED_OPS)]
    return _sent_op(offset, stored_at_ms, value, headers, None)


@dataclass(frozen=True)
class Batch:
    """What one call of the step reads, its rows in the order of arrival, which means nothing."""

    now_ms: int
    plan: Plan
    halves: list[Sent] = field(default_factory=list)
    ops: list[Sent] = field(default_factory=list)


@dataclass(frozen=True)
class History:
    """All that one queue ever reads; the rules may change from batch to batch.

    `guessed` are ops that name halves which were not there yet.
    """

    batches: list[tuple[Batch, Rules]]
    guessed: frozenset[int] = frozenset()


def stored(rows: Sequence[Sent]) -> list[StoredRecord]:
    """Return records as the step reads them."""
    return [StoredRecord(r.offset, r.stored_at_ms, r.key, r.value, r.headers) for r in rows]
