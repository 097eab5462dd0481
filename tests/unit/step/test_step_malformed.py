"""What is malformed is refused with its reason; its neighbours go on."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from resolver.protocol import record_bytes

from . import records
from .driver import Driver
from .short import end, ended, refused


@pytest.mark.parametrize("kind", range(len(records.MALFORMED_HALVES)))
def test_each_malformed_half_is_refused_and_its_neighbours_go_on(kind: int) -> None:
    bad = records.malformed_half(1, 0, kind)
    good = [records.half(0, 0), records.half(2, 0)]
    decisions = Driver().at(10, *good, bad, end(0, 5, 0, 1, 2))
    assert ended(decisions) == [(0, "COMMIT", "END"), (2, "COMMIT", "END")]
    assert refused(decisions) == [
        ("tx.half:3:1", None, "MALFORMED_HALF"),
        ("tx.op:3:0", 1, "UNKNOWN_HALF"),
    ]
    kept = decisions.refused[0]
    assert (kept.key, kept.value, list(kept.headers)) == (bad.key, bad.value, bad.headers)


@pytest.mark.parametrize("kind", range(len(records.MALFORMED_OPS)))
def test_each_malformed_op_is_refused_and_its_neighbours_go_on(kind: int) -> None:
    bad = records.malformed_op(1, 7, kind)
    halves = [records.half(0, 0), records.half(1, 0)]
    decisions = Driver().at(10, *halves, end(0, 5, 0), bad, end(2, 6, 1))
    assert ended(decisions) == [(0, "COMMIT", "END"), (1, "COMMIT", "END")]
    assert refused(decisions) == [("tx.op:3:1", None, "MALFORMED_OP")]
    assert (decisions.refused[0].value, decisions.watermark_ms) == (bad.value, 7)


@pytest.mark.parametrize("element", records.MALFORMED_ELEMENTS, ids=repr)
def test_each_malformed_element_is_refused_alone(element: Any) -> None:
    elements = [(0, "id-0"), element, (1, "id-1")]
    halves = [records.half(0, 0), records.half(1, 0)]
    decisions = Driver().at(10, *halves, records.op(0, 5, elements))
    assert len(decisions.ended) == 2
    assert refused(decisions) == [("tx.op:3:0", 1, "MALFORMED_OP")]


def test_a_refused_element_has_what_its_op_says_of_it_alone() -> None:
    elements = [(0, "id-0"), (-1, "id"), (1, "id-1")]
    wrong = records.op(0, 5, elements, actor="a" * 300, remark="why", more_headers=[("mine", b"1")])
    decisions = Driver().at(10, records.half(0, 0), records.half(2, 0), wrong)
    malformed, unknown = decisions.refused
    said = {"state": "COMMIT_MESSAGE", "group": "g0", "from_check": False, "remark": None}
    said["actor"] = "a" * 200
    assert loaded(malformed.value) == {**said, "offsets": [], "transaction_ids": []}
    assert loaded(unknown.value) == {
        **said,
        "offsets": [1],
        "transaction_ids": ["id-1"],
    }
    assert [(one.key, one.headers) for one in decisions.refused] == [(None, [])] * 2


def loaded(value: bytes | None) -> Any:
    assert value is not None
    return orjson.loads(value)


_LARGE: dict[str, Any] = {
    "actor": "a" * 100_000,
    "remark": "r" * 100_000,
    "more_headers": [("h", b"h" * 100_000)],
}


def test_what_an_op_s_refused_elements_take_does_not_grow_with_the_op() -> None:
    elements = [(-1, "id"), (7, "x" * 128)] * 512
    decisions = Driver().at(10, records.half(9, 0), records.op(0, 5, elements, **_LARGE))
    assert len(decisions.refused) == len(elements)
    taken = sum(record_bytes(one.key, one.value, one.headers) for one in decisions.refused)
    assert taken < 1_000 * len(elements)
