"""tests/README.md says which tests are in the gate, and so do their markers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_SECONDS

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "README.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z0-9_]+/test_\w+\.py::[^`]+)`", PAGE))


@pytest.fixture(scope="module")
def marked() -> set[str]:
    """Collect all tests, which shows too that all can be collected; return those of the gate."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gate", str(TESTS)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^tests/(\S+::.+)$", done.stdout, re.MULTILINE))


def test_the_gate_is_what_its_page_says(marked: set[str]) -> None:
    real = {test for test in marked if not test.startswith("unit/")}
    assert {test for test in real if not NAMED & {test, test.partition("[")[0]}} == set()
    by_name = marked | {test.partition("[")[0] for test in marked}
    assert NAMED - by_name == set()


def test_the_page_names_each_file_of_tests() -> None:
    files = {
        str(file.relative_to(TESTS))
        for file in TESTS.rglob("test_*.py")
        if "unit" not in file.relative_to(TESTS).parts
    }
    assert {file for file in files if f"`{file}" not in PAGE} == set()
