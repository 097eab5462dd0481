"""The short form of `scripts/fuzz`: decoding and the step."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from resolver.errors import MalformedOp
from resolver.protocol import Headers, decode_op
from resolver.protocol.names import HALF_HEADERS, OUTPUT_HEADERS
from tests.fuzz.ops import TAG
from tests.fuzz.pure import decode_alone, fuzz
from tests.fuzz.spec import is_op

NAMES = st.sampled_from(sorted({*HALF_HEADERS, *OUTPUT_HEADERS, "TAGS"})) | st.text()
VALUES = (
    st.none() | st.binary() | st.sampled_from([b"true", b"id", b"orders", b"0", b"d", b"fence"])
)
HEADERS = st.lists(st.tuples(NAMES, VALUES))
#: Whole numbers of 64 bits and text without surrogates: of others JSON's parsers differ.
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
)
#: Bodies of ops, of whose fields one or more may be anything.
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOWN"]) | JSON,
        "group": st.just("orders") | JSON,
        "offsets": st.lists(st.integers(0, 9), max_size=3) | JSON,
        "transaction_ids": st.lists(st.text(max_size=3), max_size=3) | JSON,
        "from_check": st.booleans() | JSON,
        "remark": st.none() | JSON,
        "actor": st.none() | JSON,
    },
)


def test_whatever_is_sent_each_refused_element_is_refused_once_and_the_others_end() -> None:
    checks = [fuzz(6_000, seed) for seed in (1, 2)]
    assert any(checks)  # some were asked about before they ended


@given(st.none() | st.binary(), st.none() | st.binary(), HEADERS)
def test_of_any_record_only_the_protocols_errors_are_raised(
    key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    decode_alone(key, value, headers)


@given(JSON | BODIES)
def test_any_json_is_an_op_if_the_spec_says_so(body: Any) -> None:
    value = json.dumps(body).encode()
    decode_alone(None, value, TAG)
    try:
        decode_op(value, TAG)
    except MalformedOp:
        assert not is_op(value)
    else:
        assert is_op(value)
