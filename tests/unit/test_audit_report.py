"""What the audit says, as text and as JSON, and what it shares with what it audits."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

from resolver.audit.report import SAYS, Finding, Invariant, Report, Violation

ROOT = Path(__file__).parents[2]
#: What it may share: names and columns, no rule of resolution. Of packages: all modules in them.
SHARED = (
    "resolver.audit",
    "resolver.errors",
    "resolver.kafka.clients",
    "resolver.protocol.TransactionStatus",
    "resolver.protocol.names",
    "resolver.settings.Settings",
    "resolver.ledger",
    "resolver.spark",
)
LOST = Violation("id-1", "1:17", "COMMIT, and no message")


def report(*violations: Violation, found: int = 0) -> Report:
    findings = (
        Finding(Invariant.ONE_OUTCOME, 12_406, 0, ()),
        Finding(Invariant.DELIVERED, 12_000, found or len(violations), violations),
    )
    return Report(
        findings,
        {"halves": 12_406},
        {"topic nowhere does not exist": 1_200},
        {"half": 3},
        {"transaction_check_max": 15},
    )


def test_each_invariant_has_its_words() -> None:
    assert set(SAYS) == set(Invariant)


def test_what_holds_is_said_with_how_much_was_checked() -> None:
    lines = report().lines()
    assert report().holds and lines[-1] == "The audit holds."
    assert any(SAYS[Invariant.ONE_OUTCOME] in line and "12,406" in line for line in lines)
    counted = "12,406 halves, 1,200 undeliverable (topic nowhere does not exist)"
    assert f"There are: {counted}" in lines
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
    assert said["undeliverable"] == {"topic nowhere does not exist": 1_200}


def test_it_shares_names_and_columns_with_the_resolver_and_no_rule() -> None:
    imported = {
        name for module in (ROOT / "resolver" / "audit").glob("*.py") for name in _of(module)
    }
    ours = {name for name in imported if name.split(".")[0] == "resolver"}
    assert [name for name in ours if not any(_is_in(name, shared) for shared in SHARED)] == []
    assert [shared for shared in SHARED if not any(_is_in(name, shared) for name in ours)] == []


def _of(module: Path) -> Iterator[str]:
    """Yield what a module of the audit imports, each thing by its full name."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            place = resolve_name("." * node.level + (node.module or ""), "resolver.audit")
            yield from (f"{place}.{alias.name}" for alias in node.names)


def _is_in(name: str, shared: str) -> bool:
    return name == shared or name.startswith(f"{shared}.")
