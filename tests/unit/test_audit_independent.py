"""The audit shares no code with the step that it audits, but for names and types of records."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import resolver.audit

#: What of the package the audit may use: no decoder of the protocol, nothing that decides.
MAY_USE = {"errors", "kafka.clients", "protocol", "settings"} | {
    *("ledger", "ledger.damaged", "ledger.delta", "ledger.op", "ledger.reading"),
    *("spark.failure", "spark.output", "spark.session", "spark.shutdown"),
}
OF_PROTOCOL = {"names", "TransactionStatus"}


def used() -> dict[str, set[str]]:
    """What modules of the audit take from other modules of the package."""
    found: dict[str, set[str]] = {}
    for file in Path(resolver.audit.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level > 1:
                found.setdefault(node.module or "", set()).update(n.name for n in node.names)
    return found


def test_the_audit_uses_names_and_types_of_records_and_no_decoder() -> None:
    assert set(used()) <= MAY_USE
    assert used()["protocol"] <= OF_PROTOCOL


def test_what_the_audit_loads_has_no_module_that_decides_or_delivers() -> None:
    show = "import sys, resolver.audit.audit, pipelines.audit; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", show], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "resolver.audit.rules" in loaded
    decides = (
        "resolver.resolve.step",
        "resolver.resolve.delivery",
        "resolver.resolve.processor",
        "resolver.resolve.planned_settings",
    )
    assert [name for name in loaded if name.startswith(decides)] == []
