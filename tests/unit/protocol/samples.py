"""Records of the protocol as Hypothesis draws them, and a plain one of each."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import strategies as st

from resolver.protocol import Element, Half, Headers, Names, Op, StoredHalf, TransactionStatus
from resolver.protocol.names import HALF_HEADERS, MAX_OFFSET, OUTPUT_HEADERS

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
#: Names of fast ids, after the group.
fast_names = st.text(LEGAL, min_size=1, max_size=64)
plain_halves = st.builds(
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
    fast_id=st.none(),
)
halves = plain_halves | st.builds(
    lambda half, name: half._replace(fast_id=NAMES.fast_id(half.group, name)),
    plain_halves,
    fast_names,
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


def stored(half: Half, queue: int = 2, offset: int = 17, stored_at_ms: int = 5_000) -> StoredHalf:
    return StoredHalf(queue, offset, stored_at_ms, half, half.to_record("tx.half").headers)


def an_op(**changes: Any) -> bytes:
    body = {"state": "COMMIT_MESSAGE", "group": "g", "offsets": [1], "transaction_ids": ["a"]}
    return orjson.dumps({k: v for k, v in (body | changes).items() if v is not Ellipsis})


OP_HEADERS: Headers = [("TAGS", b"d")]
