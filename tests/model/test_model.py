"""The models of delivery and of fast commits: all runs are right, and each rule is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from . import delivery, fast
from .case import Case, planted
from .spin import search

IN_GATE = ("both lines", "fast: one half")


def _parameter(case: Case) -> Any:
    marks = [pytest.mark.gate] if case.name in IN_GATE else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in delivery.HOLDS + fast.HOLDS])
def test_no_run_is_wrong(case: Case, tmp_path: Path) -> None:
    found = search(case.model, case.macros, tmp_path)
    assert (found.violated, found.steps) == (None, ())
    assert found.states > 1_000


@pytest.mark.parametrize("case", delivery.FAULTS + fast.FAULTS, ids=lambda case: case.name)
def test_a_rule_that_is_not_kept_is_found(case: Case, tmp_path: Path) -> None:
    found = search(case.model, planted(case), tmp_path)
    assert found.violated == case.violated, "\n".join(found.steps)


@pytest.mark.gate
def test_the_hole_is_a_late_commit_in_the_next_transaction(tmp_path: Path) -> None:
    fault = next(case for case in delivery.FAULTS if case.name == "DROP_AFTER_SLOW_COMMIT")
    steps = search(fault.model, planted(fault), tmp_path).steps
    overtaken = next(step for step in steps if step.endswith("EndTxn 0 is overtaken"))
    written = steps.index(f"{overtaken.partition(':')[0]}: batch 1 is written")
    assert steps.index(overtaken) < written
    assert "late EndTxn of epoch" in steps[-1]
    assert any("Produce" in step for step in steps[written:])


@pytest.mark.gate
def test_the_same_hole_of_a_fast_producer(tmp_path: Path) -> None:
    fault = next(case for case in fast.FAULTS if case.name == "DROP_AFTER_SLOW_COMMIT")
    steps = search(fault.model, planted(fault), tmp_path).steps
    late = steps.index("late EndTxn of F0 commits the next transaction")
    begun = [place for place, step in enumerate(steps) if "F0 begins a transaction" in step]
    assert len(begun) == 2
    assert begun[1] < late


@pytest.mark.gate
def test_each_rule_of_fast_commits_has_a_switch_and_a_case() -> None:
    """A switch of the model that no case turns off would be a rule that nobody has tried."""
    text = fast.FAULTS[0].model.read_text(encoding="utf-8")
    _, rules = text.split("rules: 0 plants the fault")
    switches = {line.split()[1] for line in rules.splitlines() if line.startswith("#ifndef ")}
    off = {case.name for case in fast.FAULTS if case.name.isupper()}
    off |= {name for case in fast.HOLDS for name, value in case.macros.items() if value == 0}
    assert off == switches | {"TIME_OUTS"}
