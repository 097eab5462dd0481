"""What the resolver writes: commits, checks, resolutions, discarded and quarantined records."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.errors import MalformedHalf, ProtocolError
from resolver.protocol import (
    DiscardReason,
    Half,
    Headers,
    Outcome,
    QuarantineReason,
    Record,
    Refused,
    Resolution,
    Source,
    check_record,
    commit_record,
    decode_check,
    decode_resolution,
    discarded_record,
    fitted,
    record_bytes,
)
from resolver.protocol.names import MAX_OFFSET
from resolver.protocol.refused import LEAST_QUARANTINE_BYTES

from .samples import NAMES, a_half, halves, millis, stored, transaction_ids


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
        ("BORN_TIMESTAMP", str(half.born_at_ms).encode()),
        ("HALF_OFFSET", f"{queue}:{offset}".encode()),
    ]


@given(halves, st.integers(0, 2**31 - 1), st.integers(0, MAX_OFFSET), st.integers(1, 10**9))
def test_a_check_says_all_of_its_half(half: Half, queue: int, offset: int, times: int) -> None:
    record = check_record(stored(half, queue, offset), times, NAMES)
    assert record.topic == f"tx.check.{half.group}"
    assert record.key == half.transaction_id.encode()
    check = decode_check(record.value, record.headers)
    assert (check.half_id, check.times) == ((queue, offset), times)
    assert check.half == half


@pytest.mark.parametrize("key", [None, b"", b"customer-7"])
@pytest.mark.parametrize("place", [0, 5])
def test_a_users_header_of_the_keys_name_is_not_the_key(key: bytes | None, place: int) -> None:
    """Another client's half may have it before all else."""
    at = stored(a_half()._replace(key=key, headers=[("KEY", b"theirs")]))
    others = [header for header in at.all_headers if header[0] != "KEY"]
    at = at._replace(all_headers=[*others[:place], ("KEY", b"theirs"), *others[place:]])
    record = check_record(at, 1, NAMES)
    check = decode_check(record.value, record.headers)
    assert (check.half.key, check.half.headers) == (key, [("KEY", b"theirs")])


def test_only_the_first_header_of_a_check_is_the_key() -> None:
    at = stored(a_half(key=None, headers=[("KEY", b"theirs")]))
    check = decode_check(b"", check_record(at, 1, NAMES).headers[1:])
    assert (check.half.key, check.half.headers) == (None, [("KEY", b"theirs")])


@pytest.mark.parametrize(("size", "fits"), [(5_000, True), (20_000, False)])
def test_a_check_that_is_cut_has_the_whole_key_or_none(size: int, fits: bool) -> None:
    half = a_half()._replace(key=b"k" * size, body=bytes(100_000), headers=[("KEY", b"theirs")])
    cut = fitted(check_record(stored(half), 1, NAMES), 50_000)
    check = decode_check(cut.value, cut.headers)
    assert check.truncated
    assert check.half.key == (half.key if fits else None)


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
