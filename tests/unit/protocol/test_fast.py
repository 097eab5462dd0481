"""Fast ids, delivered ops and revocations, as records."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.errors import MalformedHalf, MalformedOp
from resolver.protocol import (
    FAST_DELIVERY,
    DiscardReason,
    Element,
    Op,
    Outcome,
    Resolution,
    Source,
    TransactionStatus,
    commit_record,
    decode_half,
    decode_op,
    decode_resolution,
    decode_revoked,
    discarded_record,
    is_fence,
    is_revoked,
    revoked_record,
)

from .samples import NAMES, OP_HEADERS, a_half, an_op, fast_names, groups, stored, with_header

PROOF = "secret"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"tx.fast:orders:",
        b"tx.fast:orders",
        b"tx.fast:other:a",
        b"tx.fast:orders:a:b",
        b"tx.fast:orders:a b",
        b"tx.fast:orders:" + b"a" * 65,
        b"other.fast:orders:a",
        b"tx.resolver",
        b" tx.fast:orders:a",
    ],
)
def test_a_half_that_names_no_fast_id_of_its_group_is_malformed(value: bytes | None) -> None:
    with pytest.raises(MalformedHalf, match="FAST"):
        decode_half(b"", b"", with_header("FAST", value))


def test_a_half_names_one_fast_id() -> None:
    fast_id = NAMES.fast_id("orders", "a")
    headers = with_header("FAST", fast_id.encode())
    assert decode_half(b"", b"", headers).fast_id == fast_id
    with pytest.raises(MalformedHalf, match="repeated"):
        decode_half(b"", b"", with_header("FAST", fast_id.encode(), fast_id.encode()))


@given(groups, fast_names)
def test_no_two_groups_have_a_fast_id_in_common(group: str, name: str) -> None:
    fast_id = NAMES.fast_id(group, name)
    assert NAMES.is_fast_id(fast_id, group)
    for other in (group[:-1], group + "0", "x" + group):
        assert not NAMES.is_fast_id(fast_id, other)


def test_the_fast_id_is_no_header_of_the_message() -> None:
    at = stored(a_half(fast_id=NAMES.fast_id("orders", "a")))
    given_up = discarded_record(at, 1, DiscardReason.CHECK_MAX, None, NAMES)
    for record in (commit_record(at), given_up):
        assert "FAST" not in dict(record.headers)


def _op(**fields: Any) -> Op:
    element = Element(0, 17, "id")
    return Op(TransactionStatus.COMMIT_MESSAGE, "orders", (element,), **fields)


@pytest.mark.parametrize(
    "op",
    [
        _op(delivered=True),
        Op(TransactionStatus.UNKNOWN, "orders", (Element(0, 17, "id"),), gives_up_fast=True),
    ],
)
def test_a_producers_word_comes_back_and_stays_with_each_element(op: Op) -> None:
    record = op.to_record("tx.op", 0)
    assert decode_op(record.value, record.headers) == op
    assert op.about(op.elements[0]) == op


def test_an_ordinary_op_has_neither_word() -> None:
    assert not {"delivered", "fast"} & orjson.loads(_op().to_value()).keys()


@pytest.mark.parametrize(
    "fields",
    [
        {"delivered": 1},
        {"delivered": None},
        {"delivered": True, "state": "ROLLBACK_MESSAGE"},
        {"delivered": True, "state": "UNKNOWN"},
        {"delivered": True, "from_check": True},
        {"delivered": True, "actor": "me"},
        {"fast": 0},
        {"fast": None},
        {"fast": False},
        {"fast": False, "state": "UNKNOWN", "from_check": True},
        {"fast": False, "state": "UNKNOWN", "actor": "me"},
    ],
)
def test_a_word_in_the_wrong_place_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedOp, match=r"delivered|fast"):
        decode_op(an_op(**fields), OP_HEADERS)


@pytest.mark.parametrize("fields", [{"delivered": False}, {"fast": True}])
def test_a_word_that_says_nothing_new_is_legal(fields: dict[str, Any]) -> None:
    assert decode_op(an_op(**fields), OP_HEADERS) == decode_op(an_op(), OP_HEADERS)


def test_a_revocation_is_known_by_its_resolver_alone() -> None:
    record = revoked_record("tx.op", 3, "tx.fast:orders:a", PROOF)
    assert is_revoked(record.headers)
    assert not is_fence(record.value, record.headers)
    assert decode_revoked(record.value, 3, PROOF) == "tx.fast:orders:a"
    assert decode_revoked(record.value, 2, PROOF) is None
    assert decode_revoked(record.value, 3, "another") is None
    assert not is_revoked([*record.headers, ("more", b"")])


@given(st.none() | st.binary(max_size=20) | st.sampled_from([b"{}", b"[]", b"1", b"null"]))
def test_what_is_no_revocation_revokes_nothing(value: bytes | None) -> None:
    assert decode_revoked(value, 0, PROOF) is None


@pytest.mark.parametrize("changed", [{"fast": [1]}, {"fast": None}, {"mac": 5}, {"mac": "\u0660"}])
def test_a_revocation_of_other_types_revokes_nothing(changed: dict[str, Any]) -> None:
    value = revoked_record("tx.op", 0, "tx.fast:orders:a", PROOF).value or b""
    body = orjson.dumps(orjson.loads(value) | changed)
    assert decode_revoked(body, 0, PROOF) is None


@pytest.mark.parametrize("delivery", [None, FAST_DELIVERY])
def test_a_resolution_says_who_delivered(delivery: str | None) -> None:
    said = Resolution(
        "id", 0, 1, Outcome.COMMIT, Source.END, "g", "t", 5, 0, 0, 1, 2, 3, 4, 0, "q", delivery
    )
    value = said.to_record("tx.resolution").value
    assert decode_resolution(value) == said
    assert ("delivery" in orjson.loads(value or b"")) == (delivery is not None)
