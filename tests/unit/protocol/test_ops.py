"""Ops and fences: what is encoded is decoded, and what is malformed says why (docs/protocol.md)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given

from resolver.errors import MalformedOp
from resolver.protocol import (
    Element,
    Headers,
    Op,
    Record,
    TransactionStatus,
    decode_half_fence,
    decode_op,
    fence_record,
    half_fence_record,
    is_fence,
)
from resolver.protocol.names import MAX_OP_ELEMENTS

from .samples import NAMES, OP_HEADERS, an_op, ops


@given(ops)
def test_an_op_comes_back_as_it_was_sent(op: Op) -> None:
    record = op.to_record(NAMES.op, 3)
    assert (record.topic, record.partition, record.key) == ("tx.op", 3, None)
    assert decode_op(record.value, record.headers) == op
    assert not is_fence(record.value, record.headers)


def test_only_the_documented_fields_are_written() -> None:
    op = Op(TransactionStatus.COMMIT_MESSAGE, "orders", (Element(0, 17, "a"), Element(1, 18, "b")))
    assert orjson.loads(op.to_record("", 0).value or b"") == {
        "state": "COMMIT_MESSAGE",
        "group": "orders",
        "offsets": [17, 18],
        "transaction_ids": ["a", "b"],
        "from_check": False,
        "remark": None,
    }


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "not JSON"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (an_op(state=...), "state is None"),
        (an_op(state="commit"), "state is 'commit'"),
        (an_op(state=["COMMIT_MESSAGE"]), "state is "),
        (an_op(group=...), "group is None"),
        (an_op(group=""), "group is ''"),
        (an_op(group=7), "group is 7"),
        (an_op(group="g" * 201), "group is 'ggg"),
        (an_op(offsets=...), "offsets is None"),
        (an_op(offsets=1), "offsets is 1"),
        (an_op(transaction_ids=...), "transaction_ids is None"),
        (an_op(transaction_ids="a"), "transaction_ids is 'a'"),
        (an_op(offsets=[], transaction_ids=[]), "at least one"),
        (an_op(offsets=[], transaction_ids=[], from_check=True), "at least one"),
        (an_op(offsets=[], transaction_ids=[], state="UNKNOWN"), "at least one"),
        (an_op(offsets=[1, 2]), "2 offsets and 1 transaction_ids"),
        (an_op(offsets=[1] * 1025, transaction_ids=["a"] * 1025), "1025 elements"),
        (an_op(from_check=None), "from_check is None"),
        (an_op(from_check=1), "from_check is 1"),
        (an_op(remark=1), "remark is 1"),
        (an_op(actor=1), "actor is 1"),
        (an_op(actor=""), "actor is ''"),
    ],
)
def test_a_malformed_op_says_what_is_wrong(value: bytes | None, error: str) -> None:
    with pytest.raises(MalformedOp, match=error):
        decode_op(value, OP_HEADERS)


@pytest.mark.parametrize(
    "headers",
    [[], [("TAGS", b"D")], [("TAGS", None)], [("TAGS", b"d"), ("TAGS", b"d")], [("tags", b"d")]],
)
def test_an_op_without_its_tag_is_malformed(headers: Headers) -> None:
    with pytest.raises(MalformedOp, match="header TAGS"):
        decode_op(an_op(), headers)


@pytest.mark.parametrize(
    ("offset", "transaction_id", "error"),
    [
        (-1, "a", "offset is -1"),
        (2**63, "a", "offset is 9223372036854775808"),
        (1.0, "a", "offset is 1.0"),
        (True, "a", "offset is True"),
        ("1", "a", "offset is '1'"),
        (None, "a", "offset is None"),
        (1, "", "transaction id is ''"),
        (1, "x" * 129, "transaction id is 'xxx"),
        (1, 7, "transaction id is 7"),
        (1, None, "transaction id is None"),
    ],
)
def test_a_malformed_element_leaves_its_neighbours(
    offset: Any, transaction_id: Any, error: str
) -> None:
    value = an_op(offsets=[5, offset, 6], transaction_ids=["a", transaction_id, "b"])
    op = decode_op(value, OP_HEADERS)
    assert op.elements == (Element(0, 5, "a"), Element(2, 6, "b"))
    ((position, said),) = op.malformed
    assert position == 1 and error in said


def test_fields_and_headers_that_are_not_known_are_passed_over() -> None:
    value = an_op(state="UNKNOWN", version=2, nested={"a": [1]})
    op = decode_op(value, [("trace", b"1"), *OP_HEADERS, ("trace", None)])
    assert op == Op(TransactionStatus.UNKNOWN, "g", (Element(0, 1, "a"),))


def test_an_op_without_elements_announces_an_agent() -> None:
    value = an_op(offsets=[], transaction_ids=[], state="UNKNOWN", from_check=True)
    assert decode_op(value, OP_HEADERS).announces
    malformed = an_op(offsets=[-1], transaction_ids=["a"], state="UNKNOWN", from_check=True)
    assert not decode_op(malformed, OP_HEADERS).announces


def test_blanks_before_dense_json_are_passed_over() -> None:
    """Orjson by itself says that it has no memory for this."""
    dense = b'{\n "more": [%b], ' % b",".join([b"1"] * 8_000)
    op = decode_op(dense + an_op()[1:], OP_HEADERS)
    assert op.elements == (Element(0, 1, "a"),)


@pytest.mark.parametrize("value", [b"", b" ", b"{},{}", b"],[", b"{}]", b"[{}"])
def test_what_is_not_one_object_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedOp, match="not JSON"):
        decode_op(value, OP_HEADERS)


def test_an_op_may_have_as_many_elements_as_its_limit() -> None:
    ids = [f"id-{number}" for number in range(MAX_OP_ELEMENTS)]
    op = decode_op(an_op(offsets=list(range(MAX_OP_ELEMENTS)), transaction_ids=ids), OP_HEADERS)
    assert len(op.elements) == MAX_OP_ELEMENTS == 1024


def test_a_remark_that_utf8_cannot_hold_does_not_fail_its_op() -> None:
    op = Op(TransactionStatus.UNKNOWN, "g", (Element(0, 1, "a"),), remark="no \udcff.txt")
    record = op.to_record("", 0)
    assert decode_op(record.value, record.headers).remark == "no ?.txt"


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (an_op(**{name: [["\x00" * 9_000] * 9]}), OP_HEADERS)
        for name in ("state", "group", "from_check", "remark", "actor")
    ]
    + [(an_op(**{name: "\x00" * 9_000}), OP_HEADERS) for name in ("offsets", "transaction_ids")]
    + [(an_op(), [("TAGS", b"\x00" * 9_000)])],
)
def test_an_error_of_an_op_quotes_little(value: bytes, headers: Headers) -> None:
    with pytest.raises(MalformedOp) as raised:
        decode_op(value, headers)
    assert len(str(raised.value)) < 200


#: As deep as the JSON library reads, and deeper than Python writes.
DEEP = b"[" * 1_020 + b"]" * 1_020


@pytest.mark.parametrize("name", ["state", "group", "from_check", "remark", "actor"])
def test_a_field_nested_deep_is_malformed(name: str) -> None:
    with pytest.raises(MalformedOp):
        decode_op(an_op(**{name: "DEEP"}).replace(b'"DEEP"', DEEP), OP_HEADERS)


@pytest.mark.parametrize("name", ["offsets", "transaction_ids"])
def test_an_element_nested_deep_is_malformed(name: str) -> None:
    op = decode_op(an_op(**{name: ["DEEP"]}).replace(b'"DEEP"', DEEP), OP_HEADERS)
    assert [position for position, _ in op.malformed] == [0]


def test_an_error_of_an_element_quotes_little() -> None:
    op = decode_op(an_op(offsets=[[1] * 9_000, 1], transaction_ids=["a", "x" * 9_000]), OP_HEADERS)
    assert [len(said) < 200 for _, said in op.malformed] == [True, True]


def test_a_fence_is_empty_and_tagged() -> None:
    record = fence_record(NAMES.op, 2)
    assert record == Record("tx.op", None, b"", [("TAGS", b"fence")], 2)
    assert is_fence(record.value, record.headers)
    assert is_fence(None, record.headers)


def test_a_fence_of_the_half_topic_names_ops_for_whom_knows_its_secret() -> None:
    record = half_fence_record(NAMES.half, 2, 17, "secret")
    assert (record.topic, record.partition, record.key) == ("tx.half", 2, None)
    assert record.headers == [("TAGS", b"fence")]
    body = orjson.loads(record.value or b"")
    assert (sorted(body), body["ops"]) == (["mac", "ops"], 17)
    assert decode_half_fence(record.value, record.headers, 2, "secret") == 17
    assert decode_half_fence(record.value, record.headers, 1, "secret") == 0
    assert decode_half_fence(record.value, record.headers, 2, "another") == 0
    more = orjson.dumps({**body, "ops": 18})
    assert decode_half_fence(more, record.headers, 2, "secret") == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"17",
        b"[]",
        b"{}",
        b"\xff",
        b'{"ops":"x","mac":""}',
        b'{"ops":1,"mac":1}',
        b'{"ops":1,"mac":"\\ud800"}',
        b'{"ops":1,"mac":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
    ],
)
def test_any_other_value_proves_nothing(value: bytes | None) -> None:
    assert decode_half_fence(value, [("TAGS", b"fence")], 0, "secret") == 0


@pytest.mark.parametrize("headers", [None, [], [("TAGS", b"d")], [("TAGS", b"fence"), ("a", b"")]])
def test_another_record_of_the_half_topic_is_no_fence(headers: Headers | None) -> None:
    assert decode_half_fence(b"", headers, 0, "secret") is None


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"x", [("TAGS", b"fence")]),
        (b"", []),
        (b"", [("TAGS", b"d")]),
        (b"", [("TAGS", b"fence"), ("TAGS", b"fence")]),
        (b"", [("TAGS", b"fence"), ("other", b"")]),
    ],
)
def test_what_is_almost_a_fence_is_a_malformed_op(value: bytes, headers: Headers) -> None:
    assert not is_fence(value, headers)
    with pytest.raises(MalformedOp):
        decode_op(value, headers)


def test_a_fence_that_went_through_spark_is_one_still() -> None:
    assert is_fence(b"", fence_record("", 0).headers)
