"""A campaign does what a refusal says, and nothing where it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.fault_error import FaultError
from tests.faults.remedy import follow


def test_it_starts_with_what_the_refusal_names(tmp_path: Path) -> None:
    said = "error: the checkpoint is older than its marker; start with --rebuild"
    assert follow(said, tmp_path) == ["--rebuild"]


def test_it_removes_the_folders_that_the_refusal_names(tmp_path: Path) -> None:
    folders = [tmp_path / "tables" / "half", tmp_path / "checkpoints" / "land"]
    for folder in folders:
        folder.mkdir(parents=True)
    said = f"can't be read; if so, remove the folders {folders[0]} and {folders[1]} and start again"
    assert follow(said, tmp_path) == []
    assert not any(folder.exists() for folder in folders)
    assert folders[0].parent.exists()


def test_a_folder_that_is_gone_needs_no_removal(tmp_path: Path) -> None:
    table = tmp_path / "tables" / "half"
    table.mkdir(parents=True)
    gone = tmp_path / "checkpoints" / "land"
    said = f"can't be put back, remove the folders {gone} and {table} and start again: it lands"
    assert follow(said, tmp_path) == []
    assert not table.exists()


def test_a_refusal_that_names_nothing_fails(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match="not told what to do: error: it is broken"):
        follow("error: it is broken", tmp_path)


def test_what_is_not_the_resolvers_is_not_removed(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match="not the resolver's"):
        follow(f"remove the folder {tmp_path} and start again", tmp_path / "home")
