"""What is malformed is refused with its reason; its neighbours go on."""

from __future__ import annotations

from typing import Any

import pytest

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
