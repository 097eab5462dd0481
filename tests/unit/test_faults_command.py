"""`scripts/faults`: what it refuses, and what it says of files that are not as it needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_SECONDS


def faults(home: Path, *options: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it said."""
    run = [sys.executable, "-m", "tests.faults", "--home", str(home), *options]
    ended = subprocess.run(
        run, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "0"], "--rounds: 0 is no number from 1 to"),
        (["--rate", "0"], "--rate: 0 is no number above 0"),
        (["--soak", "x"], "--soak: x is no number above 0"),
        (["--soak", "1", "--resume"], "--soak is no campaign"),
        (["--again", "kills-1"], "--again goes with --resume"),
        (["--ordered", "10", "--resume"], "--ordered is no campaign"),
    ],
)
def test_a_wrong_option_begins_nothing(tmp_path: Path, options: list[str], said: str) -> None:
    home = tmp_path / "home"
    exit_code, told = faults(home, *options)
    assert (exit_code, said in told, home.exists()) == (2, True, False), told


def test_files_that_are_not_as_it_needs_them_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "home"
    report = str(tmp_path / "missing.md")
    for folder, options, said in (
        (tmp_path / "file", ["--resume"], str(tmp_path / "file")),
        (home, ["--resume"], "nothing to go on with; leave out --resume"),
        (home, ["--report", report], report),
    ):
        exit_code, told = faults(folder, *options)
        assert (exit_code, told.count("\n"), said in told) == (1, 1, True), told
    (home / "results.jsonl").write_text('{"seed": 1, "cou')
    exit_code, told = faults(home, "--resume")
    assert (exit_code, told.count("\n")) == (1, 1), told
    assert "does not begin with a campaign" in told
