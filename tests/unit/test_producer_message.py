"""What a message may be is checked before anything is stored."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Message, MessageRefused
from resolver.producer.message_rules import DELAY_HEADERS, MARGIN_BYTES, check_message, check_size
from resolver.protocol import Half, HalfId, decode_half, record_bytes
from resolver.protocol.names import HALF_HEADERS, OUTPUT_HEADERS


def legal(**changes: Any) -> Message:
    return dataclasses.replace(Message("orders.placed", b"body"), **changes)


def half_of(message: Message) -> Half:
    return message.to_half("orders", "0f8fad5b-d9cb-469f-a165-70867728950e", 1)


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a" * 250, "ä", None, b"orders"])
def test_illegal_topics_are_refused(topic: Any) -> None:
    with pytest.raises(MessageRefused, match="topic is"):
        check_message(legal(topic=topic), "tx.")


def test_topics_of_the_protocol_are_refused_under_any_prefix() -> None:
    with pytest.raises(MessageRefused, match=r"prefix 'my\.'"):
        check_message(legal(topic="my.half"), "my.")
    check_message(legal(topic="tx.half"), "my.")


@pytest.mark.parametrize("name", sorted(HALF_HEADERS | OUTPUT_HEADERS))
def test_protocol_headers_are_refused(name: str) -> None:
    with pytest.raises(MessageRefused, match=name):
        check_message(legal(headers=[("mine", b"1"), (name, b"x")]), "tx.")


@pytest.mark.parametrize("name", sorted(DELAY_HEADERS))
def test_a_delay_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(MessageRefused, match=f"header {name} asks for a delay.*[Rr]emove it"):
        check_message(legal(headers=[(name, b"3")]), "tx.")


@pytest.mark.parametrize(
    "headers",
    [
        [("a", "text")],
        [("a", 1)],
        [("a\0b", b"")],
        [("\ud800", b"")],
        [(b"a", b"")],
        [("a",)],
        ["ab"],
        {"a": b"1"},
        iter([("a", b"1")]),
        {("a", b"1")},
        "",
        1,
    ],
)
def test_headers_that_kafka_cannot_carry_are_refused(headers: Any) -> None:
    with pytest.raises(MessageRefused, match="header"):
        check_message(legal(headers=headers), "tx.")


@pytest.mark.parametrize("none", [None, [], ()])
def test_a_message_may_have_no_headers(none: Any) -> None:
    message = legal(headers=none)
    check_message(message, "tx.")
    assert half_of(message).headers == []


@pytest.mark.parametrize("field", ["body", "key", "ordering_key"])
def test_text_is_refused_with_the_remedy(field: str) -> None:
    with pytest.raises(MessageRefused, match=rf"{field} is 'text'.*encode\(\)"):
        check_message(legal(**{field: "text"}), "tx.")


@pytest.mark.parametrize("value", [-1, 2**31, True, 1.0, "1"])
def test_real_qid_must_be_a_partition(value: Any) -> None:
    with pytest.raises(MessageRefused, match="real_qid is"):
        check_message(legal(real_qid=value), "tx.")


@pytest.mark.parametrize("value", [0, -1, 100.5, True, "7"])
def test_immunity_must_be_whole_seconds_above_zero(value: Any) -> None:
    with pytest.raises(MessageRefused, match="check_immunity_seconds is"):
        check_message(legal(check_immunity_seconds=value), "tx.")


def test_something_else_than_a_message_is_refused() -> None:
    with pytest.raises(MessageRefused, match=r"send a resolver\.Message"):
        check_message(b"body", "tx.")  # type: ignore[arg-type]


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
headers = st.lists(
    st.tuples(
        names.filter(lambda name: name not in HALF_HEADERS | OUTPUT_HEADERS | DELAY_HEADERS),
        st.none() | st.binary(max_size=20),
    )
)
any_bytes = st.none() | st.binary(max_size=50)


@given(any_bytes, any_bytes, headers, st.none() | st.integers(0, 2**31 - 1))
def test_what_passes_is_a_half_that_the_resolver_accepts(
    body: bytes | None,
    key: bytes | None,
    user: list[tuple[str, bytes | None]],
    real_qid: int | None,
) -> None:
    message = Message("real", body, key, user, real_qid, 7)
    check_message(message, "tx.")
    half = half_of(message)
    record = half.to_record("tx.half")
    assert decode_half(record.key, record.value, record.headers) == half
    assert Message.of_half(half, HalfId(3, 17)) == message


def test_the_size_counts_key_headers_and_margin() -> None:
    half = half_of(legal(key=b"k" * 100, headers=[("é" * 10, b"v" * 50)]))
    sent = half.to_record("tx.half").headers
    size = record_bytes(half.key, half.body, sent) + MARGIN_BYTES
    # UTF-8 of the name counts, not its characters.
    assert size > 100 + 20 + 50 + sum(len(n) + len(v or b"") for n, v in sent[:-1]) + MARGIN_BYTES
    check_size(half, sent, size)
    with pytest.raises(MessageRefused, match=rf"takes {size} bytes.*at most {size - 1} fit"):
        check_size(half, sent, size - 1)


def test_the_listener_sees_where_the_half_is_and_the_sender_can_not_set_it() -> None:
    message = Message.of_half(half_of(legal()), HalfId(3, 17), check_times=2)
    assert (message.transaction_id, message.half_offset) == (
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "3:17",
    )
    assert (message.check_times, message.born_at_ms) == (2, 1)
    with pytest.raises(TypeError):
        Message("real", b"", transaction_id="mine")  # type: ignore[call-arg]
