"""What has landed is compared with what is stored, record by record."""

from __future__ import annotations

from collections import Counter

from tests.faults.completeness import RecordPosition, compare

STORED: set[RecordPosition] = {("tx.half", 0, 0), ("tx.half", 0, 2), ("tx.check.a", 1, 0)}


def test_all_has_landed_once() -> None:
    assert compare(STORED, Counter(STORED)) == []


def test_each_kind_of_difference_is_named_with_its_place() -> None:
    landed = Counter(STORED - {("tx.check.a", 1, 0)})
    landed[("tx.half", 0, 2)] += 1
    landed[("tx.op", 0, 7)] += 1
    assert compare(STORED, landed) == [
        "1 not landed, such as tx.check.a:1:0",
        "1 landed, and not there, such as tx.op:0:7",
        "1 landed more than once, such as tx.half:0:2",
    ]
