"""What the audit says, as text and as JSON."""

from __future__ import annotations

import json

from resolver.audit.report import SAYS, Finding, Invariant, Report, Violation

LOST = Violation("id-1", "1:17", "COMMIT, and no message")


def report(*violations: Violation, found: int = 0) -> Report:
    findings = (
        Finding(Invariant.ONE_OUTCOME, 12_406, 0, ()),
        Finding(Invariant.DELIVERED, 12_000, found or len(violations), violations),
    )
    return Report(findings, {"halves": 12_406}, {"half": 3}, {"transaction_check_max": 15})


def test_each_invariant_has_its_words() -> None:
    assert set(SAYS) == set(Invariant)


def test_what_holds_is_said_with_how_much_was_checked() -> None:
    lines = report().lines()
    assert report().holds and lines[-1] == "The audit holds."
    assert any(SAYS[Invariant.ONE_OUTCOME] in line and "12,406" in line for line in lines)
    assert "Judged by: transaction_check_max=15" in lines


def test_a_violation_is_named_with_its_transaction() -> None:
    lines = report(LOST, found=3).lines()
    assert not report(LOST).holds
    assert "    1:17 id-1: COMMIT, and no message" in lines
    assert lines[-1] == "THE AUDIT FOUND 3 VIOLATIONS."


def test_the_json_has_it_all() -> None:
    said = json.loads(json.dumps(report(LOST).as_json()))
    assert said["holds"] is False
    assert said["invariants"]["delivered"] == {
        "says": SAYS[Invariant.DELIVERED],
        "checked": 12_000,
        "violations": 1,
        "examples": [{"transaction_id": "id-1", "half": "1:17", "detail": LOST.detail}],
    }
    assert (said["counts"], said["versions"]) == ({"halves": 12_406}, {"half": 3})
