"""The records of docs/protocol.md: what is encoded is decoded, and what is malformed says why."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.errors import MalformedHalf, MalformedOp, ProtocolError
from resolver.protocol import (
    DiscardReason,
    Element,
    Half,
    HalfAt,
    Headers,
    Names,
    Op,
    Outcome,
    QuarantineReason,
    Record,
    Refused,
    Resolution,
    Source,
    TransactionStatus,
    check_record,
    commit_record,
    decode_check,
    decode_half,
    decode_op,
    decode_resolution,
    discarded_record,
    fence_record,
    fitted,
    is_fence,
    legal_group,
    legal_topic,
    record_bytes,
)
from resolver.protocol.names import HALF_HEADERS, MAX_OFFSET, MAX_OP_ELEMENTS, OUTPUT_HEADERS
from resolver.protocol.outputs import LEAST_QUARANTINE_BYTES

NAMES = Names()
LEGAL = "abcXYZ019._-"
RESERVED = HALF_HEADERS | OUTPUT_HEADERS
UNICODE = st.characters(exclude_categories=["Cs"])
NAME = st.characters(exclude_categories=["Cs"], exclude_characters="\0")

contents = st.none() | st.binary(max_size=40)
user_headers = st.lists(
    st.tuples(st.text(NAME, max_size=8).filter(lambda name: name not in RESERVED), contents),
    max_size=4,
)
transaction_ids = st.text(UNICODE, min_size=1, max_size=128)
groups = st.text(LEGAL, min_size=1, max_size=200)
topics = st.text(LEGAL, min_size=1, max_size=249).filter(
    lambda name: name not in (".", "..") and not name.startswith(NAMES.prefix)
)
millis = st.integers(0, 10**18 - 1)
halves = st.builds(
    Half,
    transaction_id=transaction_ids,
    group=groups,
    topic=topics,
    born_at_ms=millis,
    key=contents,
    body=contents,
    headers=user_headers,
    real_qid=st.none() | st.integers(0, 2**31 - 1),
    immunity_seconds=st.none() | st.integers(1, 10**18 - 1),
)
elements = st.tuples(st.integers(0, MAX_OFFSET), transaction_ids)
ops = st.builds(
    lambda state, group, pairs, *rest: Op(
        state, group, tuple(Element(at, *pair) for at, pair in enumerate(pairs)), *rest
    ),
    st.sampled_from(TransactionStatus),
    groups,
    st.lists(elements, min_size=1, max_size=5),
    st.booleans(),
    st.none() | st.text(UNICODE, max_size=20),
    st.none() | st.text(UNICODE, min_size=1, max_size=20),
)


def a_half(**changes: Any) -> Half:
    plain = Half("id-1", "orders", "orders.placed", 1_000, b"key", b"body", [("user", b"1")])
    return plain._replace(**changes)


def with_header(name: str, *values: bytes | None) -> Headers:
    """Return a good half's headers, with one of them changed, repeated or (no values) left out."""
    kept = [header for header in a_half(real_qid=3).to_record("").headers if header[0] != name]
    return [*kept, *((name, value) for value in values)]


def stored(half: Half, queue: int = 2, offset: int = 17, stored_at_ms: int = 5_000) -> HalfAt:
    return HalfAt(queue, offset, stored_at_ms, half, half.to_record("tx.half").headers)


def an_op(**changes: Any) -> bytes:
    body = {"state": "COMMIT_MESSAGE", "group": "g", "offsets": [1], "transaction_ids": ["a"]}
    return orjson.dumps({k: v for k, v in (body | changes).items() if v is not Ellipsis})


OP_HEADERS: Headers = [("TAGS", b"d")]

# Halves


@given(halves)
def test_a_half_comes_back_as_it_was_sent(half: Half) -> None:
    record = half.to_record(NAMES.half, 3)
    assert (record.topic, record.partition) == ("tx.half", 3)
    assert (record.key, record.value) == (half.key, half.body)
    assert decode_half(record.key, record.value, record.headers) == half


@given(halves, st.randoms())
def test_the_place_of_protocol_headers_among_the_users_own_does_not_matter(
    half: Half, random: Any
) -> None:
    headers = half.to_record("").headers
    ours = [header for header in headers if header[0] in HALF_HEADERS]
    for header in ours:
        headers.remove(header)
        headers.insert(random.randint(0, len(headers)), header)
    assert decode_half(half.key, half.body, headers) == half


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("TRAN_MSG", [b"TRUE"]),
        ("TRAN_MSG", [None]),
        ("UNIQ_KEY", [b""]),
        ("UNIQ_KEY", [b"x" * 129]),
        ("UNIQ_KEY", [b"\xff"]),
        ("UNIQ_KEY", [None]),
        ("PGROUP", [b""]),
        ("PGROUP", [b"a b"]),
        ("PGROUP", [b"g" * 201]),
        ("PGROUP", ["gr\u00fcn".encode()]),
        ("PGROUP", [b"tx.resolver"]),
        ("REAL_TOPIC", [b""]),
        ("REAL_TOPIC", [b"."]),
        ("REAL_TOPIC", [b".."]),
        ("REAL_TOPIC", [b"a/b"]),
        ("REAL_TOPIC", [b"t" * 250]),
        ("REAL_TOPIC", [b"tx.anything"]),
        ("REAL_TOPIC", [b"orders\n"]),
        ("BORN_TIMESTAMP", [b"-1"]),
        ("BORN_TIMESTAMP", [b"1.5"]),
        ("BORN_TIMESTAMP", [b""]),
        ("BORN_TIMESTAMP", [b"1" * 19]),
        ("BORN_TIMESTAMP", ["\u0667".encode()]),
        ("REAL_QID", [b"-1"]),
        ("REAL_QID", [b"2147483648"]),
        ("REAL_QID", [b"one"]),
        ("REAL_QID", [None]),
    ],
)
def test_an_illegal_header_is_named_with_its_value(name: str, values: list[bytes | None]) -> None:
    with pytest.raises(MalformedHalf, match=f"header {name} is ") as raised:
        decode_half(None, b"", with_header(name, *values))
    assert repr(values[0])[:70] in str(raised.value)


@pytest.mark.parametrize("name", sorted(HALF_HEADERS))
def test_a_repeated_protocol_header_is_malformed(name: str) -> None:
    with pytest.raises(MalformedHalf, match=f"header {name} is repeated"):
        decode_half(None, b"", with_header(name, b"1", b"1"))


@pytest.mark.parametrize("name", ["TRAN_MSG", "UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP"])
def test_a_missing_protocol_header_is_malformed(name: str) -> None:
    with pytest.raises(MalformedHalf, match=f"header {name} is missing"):
        decode_half(None, b"", with_header(name))


@pytest.mark.parametrize("name", sorted(OUTPUT_HEADERS))
def test_a_header_of_outputs_is_malformed_in_a_half(name: str) -> None:
    with pytest.raises(MalformedHalf, match=f"header {name} is reserved"):
        decode_half(None, b"", with_header(name, b"1"))


def test_the_prefix_decides_which_names_are_ours() -> None:
    headers = with_header("REAL_TOPIC", b"tx.anything")
    assert decode_half(None, None, headers, "dev.tx.").topic == "tx.anything"
    headers = with_header("PGROUP", b"tx.resolver")
    assert decode_half(None, None, headers, "dev.tx.").group == "tx.resolver"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *((b"7", 7), (b"007", 7), (b"9" * 18, 10**18 - 1)),
        *((b"0", None), (b"-1", None), (b"100.5", None), (b"+7", None), (b" 7", None)),
        *((b"", None), (None, None), (b"\xff", None), ("\u0667".encode(), None)),
        (b"9" * 19, None),
    ],
)
def test_an_immunity_is_a_whole_number_above_0_and_anything_else_is_none(
    written: bytes | None, seconds: int | None
) -> None:
    headers = with_header("CHECK_IMMUNITY_TIME_IN_SECONDS", written)
    assert decode_half(None, b"", headers).immunity_seconds == seconds


# Ops


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


def test_an_op_may_have_as_many_elements_as_its_limit() -> None:
    ids = [f"id-{number}" for number in range(MAX_OP_ELEMENTS)]
    op = decode_op(an_op(offsets=list(range(MAX_OP_ELEMENTS)), transaction_ids=ids), OP_HEADERS)
    assert len(op.elements) == MAX_OP_ELEMENTS == 1024


def test_a_remark_that_utf8_cannot_hold_does_not_fail_its_op() -> None:
    op = Op(TransactionStatus.UNKNOWN, "g", (Element(0, 1, "a"),), remark="no \udcff.txt")
    record = op.to_record("", 0)
    assert decode_op(record.value, record.headers).remark == "no ?.txt"


# Fences


def test_a_fence_is_empty_and_tagged() -> None:
    record = fence_record(NAMES.op, 2)
    assert record == Record("tx.op", None, b"", [("TAGS", b"fence")], 2)
    assert is_fence(record.value, record.headers)
    assert is_fence(None, record.headers)


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


# Outputs


@given(halves, st.integers(0, 2**31 - 1), st.integers(0, MAX_OFFSET), millis)
def test_a_commit_is_what_the_application_sent_and_where_it_came_from(
    half: Half, queue: int, offset: int, stored_at_ms: int
) -> None:
    record = commit_record(stored(half, queue, offset, stored_at_ms))
    assert (record.topic, record.key, record.value) == (half.topic, half.key, half.body)
    assert record.partition == (-1 if half.real_qid is None else half.real_qid)
    assert record.timestamp_ms == stored_at_ms
    assert record.headers == [
        *half.headers,
        ("UNIQ_KEY", half.transaction_id.encode()),
        ("PGROUP", half.group.encode()),
        ("HALF_OFFSET", f"{queue}:{offset}".encode()),
    ]


@given(halves, st.integers(0, 2**31 - 1), st.integers(0, MAX_OFFSET), st.integers(1, 10**9))
def test_a_check_says_all_of_its_half_but_the_key(
    half: Half, queue: int, offset: int, times: int
) -> None:
    record = check_record(stored(half, queue, offset), times, NAMES)
    assert record.topic == f"tx.check.{half.group}"
    assert record.key == half.transaction_id.encode()
    check = decode_check(record.value, record.headers)
    assert (check.queue, check.offset, check.times) == (queue, offset, times)
    assert check.half == half._replace(key=None)


def test_a_check_that_is_cut_keeps_the_longest_transaction_id() -> None:
    half = a_half()._replace(transaction_id="\N{SNOWFLAKE}" * 128, headers=[("a", bytes(100_000))])
    cut = fitted(check_record(stored(half), 1, NAMES), 50_000)
    assert decode_check(cut.value, cut.headers).half.transaction_id == half.transaction_id


def test_a_check_says_that_its_half_was_cut() -> None:
    record = check_record(stored(a_half()._replace(body=bytes(100_000))), 1, NAMES)
    cut = fitted(record, 50_000)
    check = decode_check(cut.value, cut.headers)
    assert check.truncated and check.half.body == cut.value
    assert not decode_check(record.value, record.headers).truncated


@pytest.mark.parametrize("name", ["HALF_OFFSET", "TRANSACTION_CHECK_TIMES"])
@pytest.mark.parametrize("value", [..., None, b"", b"x", b"-1:2", b" 1", b"1:2:3", b"1_0:2"])
def test_a_check_without_its_marks_is_malformed(name: str, value: Any) -> None:
    headers = [h for h in check_record(stored(a_half()), 1, NAMES).headers if h[0] != name]
    if value is not Ellipsis:
        headers.append((name, value))
    with pytest.raises(MalformedHalf, match=f"header {name} of a check is"):
        decode_check(b"", headers)


def test_a_check_whose_marks_are_repeated_is_malformed() -> None:
    headers = check_record(stored(a_half()), 1, NAMES).headers
    with pytest.raises(MalformedHalf, match="header HALF_OFFSET of a check is repeated"):
        decode_check(b"", [*headers, ("HALF_OFFSET", b"2:18")])


@pytest.mark.parametrize("error", [None, "topic orders does not exist"])
def test_a_discarded_message_keeps_all_of_its_half(error: str | None) -> None:
    at = stored(a_half())
    record = discarded_record(at, 15, DiscardReason.CHECK_MAX, error, NAMES)
    assert (record.topic, record.key, record.value) == ("tx.discarded", b"key", b"body")
    marks: Headers = [
        ("TRANSACTION_CHECK_TIMES", b"15"),
        ("HALF_OFFSET", b"2:17"),
        ("REASON", b"CHECK_MAX"),
    ]
    said: Headers = [] if error is None else [("ERROR", error.encode())]
    assert record.headers == [*at.all_headers, *marks, *said]


def a_resolution(**changes: Any) -> Resolution:
    rollback = Resolution(
        "id-1", 2, 17, Outcome.ROLLBACK, Source.CHECK, "orders", "orders.placed",
        9, 3, 1, 1_000, 2_000, 3_000, 4_000, 5, "query",
    )  # fmt: skip
    return rollback._replace(**changes)


@given(
    transaction_ids,
    st.sampled_from(Outcome),
    st.sampled_from(Source),
    st.none() | st.integers(0, MAX_OFFSET),
)
def test_a_resolution_comes_back_as_it_was_written(
    transaction_id: str, outcome: Outcome, source: Source, op_offset: int | None
) -> None:
    said = a_resolution(
        transaction_id=transaction_id, outcome=outcome, source=source, op_offset=op_offset
    )
    record = said.to_record(NAMES.resolution)
    assert (record.topic, record.key) == ("tx.resolution", transaction_id.encode())
    assert decode_resolution(record.value) == said


def test_a_resolution_may_gain_fields() -> None:
    value = orjson.loads(a_resolution().to_record("").value or b"") | {"later": 1}
    assert decode_resolution(orjson.dumps(value)) == a_resolution()


@pytest.mark.parametrize(
    "value", [None, b"", b"[]", b"{}", b'{"outcome": "NONE"}', b"\xff", b"x" * 10_000]
)
def test_what_is_no_resolution_is_a_protocol_error(value: bytes | None) -> None:
    with pytest.raises(ProtocolError, match="is no resolution") as raised:
        decode_resolution(value)
    assert len(str(raised.value)) < 200


# Quarantine


def a_refused(**changes: Any) -> Refused:
    plain = Refused(
        "tx.op:2:17", 3, QuarantineReason.UNKNOWN_HALF, "why", b"key", b"value", [("a", None)]
    )
    return plain._replace(**changes)


def test_a_refused_record_is_kept_bit_for_bit_before_its_marks() -> None:
    record = a_refused().to_record(NAMES, LEAST_QUARANTINE_BYTES)
    assert record == Record(
        "tx.quarantine",
        b"key",
        b"value",
        [
            ("a", None),
            ("REASON", b"UNKNOWN_HALF"),
            ("ERROR", b"why"),
            ("SOURCE", b"tx.op:2:17"),
            ("ELEMENT", b"3"),
        ],
    )


def test_a_wholly_refused_record_names_no_element() -> None:
    record = a_refused(element=None).to_record(NAMES, LEAST_QUARANTINE_BYTES)
    assert [name for name, _ in record.headers] == ["a", "REASON", "ERROR", "SOURCE"]


@given(
    key=st.none() | st.integers(0, 9_000),
    value=st.none() | st.integers(0, 20_000),
    names=st.lists(st.integers(0, 4_000), max_size=6),
    error=st.text(max_size=2_000),
    max_bytes=st.integers(LEAST_QUARANTINE_BYTES, 16_384),
)
def test_a_quarantined_record_always_fits(
    key: int | None, value: int | None, names: list[int], error: str, max_bytes: int
) -> None:
    refused = a_refused(
        source=f"{'t' * 249}:2147483647:{MAX_OFFSET}",
        key=None if key is None else b"k" * key,
        value=None if value is None else b"v" * value,
        headers=[("\u00e4" * (size // 3), b"h" * size) for size in names],
        error=error,
    )
    record = refused.to_record(NAMES, max_bytes)
    assert record_bytes(record.key, record.value, record.headers) <= max_bytes
    marks = dict(record.headers)
    assert {"REASON", "ERROR", "SOURCE", "ELEMENT"} <= marks.keys()
    untouched = (record.key, record.value) == (refused.key, refused.value) and record.headers[
        : len(names)
    ] == refused.headers
    assert (marks.get("TRUNCATED") == b"true") is not untouched
    (marks["ERROR"] or b"").decode()  # raises where it was cut inside a character
    for kept, whole in ((record.key, refused.key), (record.value, refused.value)):
        assert (kept is None) is (whole is None)
        assert (whole or b"").startswith(kept or b"")


def test_a_cut_value_takes_what_headers_and_key_leave() -> None:
    record = a_refused(value=b"v" * 50_000).to_record(NAMES, 10_000)
    assert record_bytes(record.key, record.value, record.headers) == 10_000
    assert (record.key, record.headers[0]) == (b"key", ("a", None))


def test_an_error_is_cut_between_two_characters() -> None:
    record = a_refused(error="\u20ac" * 1_000).to_record(NAMES, LEAST_QUARANTINE_BYTES)
    assert dict(record.headers)["ERROR"] == ("\u20ac" * 341).encode()


def test_a_limit_that_could_not_hold_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes is 100"):
        a_refused().to_record(NAMES, 100)


# Errors' texts, names


@pytest.mark.parametrize("name", ["UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP", "REAL_QID"])
def test_an_error_of_a_half_quotes_little(name: str) -> None:
    with pytest.raises(MalformedHalf) as raised:
        decode_half(None, b"", with_header(name, b"\x00" * 100_000))
    assert len(str(raised.value)) < 200


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


@given(st.text(max_size=300))
def test_legal_names_are_kafkas(name: str) -> None:
    characters = set(name) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    )
    assert legal_topic(name) == (characters and 1 <= len(name) <= 249 and name not in (".", ".."))
    assert legal_group(name) == (characters and 1 <= len(name) <= 200)


def test_topics_follow_from_the_prefix() -> None:
    names = Names("dev.")
    assert [names.half, names.op, names.resolution, names.discarded, names.quarantine] == [
        "dev.half", "dev.op", "dev.resolution", "dev.discarded", "dev.quarantine",
    ]  # fmt: skip
    assert (names.marker, names.check("orders")) == ("dev.marker", "dev.check.orders")
