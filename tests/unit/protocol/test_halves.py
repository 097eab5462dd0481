"""Halves: what is encoded is decoded, and what is malformed says why (docs/protocol.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.errors import MalformedHalf
from resolver.protocol import Half, decode_half
from resolver.protocol.names import HALF_HEADERS, OUTPUT_HEADERS

from .samples import NAMES, halves, with_header


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


@pytest.mark.parametrize("name", ["UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP", "REAL_QID"])
def test_an_error_of_a_half_quotes_little(name: str) -> None:
    with pytest.raises(MalformedHalf) as raised:
        decode_half(None, b"", with_header(name, b"\x00" * 100_000))
    assert len(str(raised.value)) < 200
