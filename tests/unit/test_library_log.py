"""The file into which libraries write while a command runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver.cli import terminal as module
from resolver.cli.terminal import terminal
from resolver.up.home import Home
from tests.support.patience import wait_until

STDERR = 2


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    file = Home(tmp_path).library_log
    file.parent.mkdir(parents=True)
    return file


def test_what_earlier_commands_left_moves_to_a_second_file(tmp_path: Path, log: Path) -> None:
    log.write_text("old\n" * 100)
    with terminal(tmp_path):
        assert log.read_text() == ""
    assert Path(f"{log}.1").read_text() == "old\n" * 100


def test_the_file_stays_small_while_a_command_runs(tmp_path: Path, log: Path) -> None:
    """Also for what a C library writes to its descriptor."""
    with terminal(tmp_path):
        os.write(STDERR, b"many\n" * 100)
        wait_until(lambda: log.stat().st_size == 0)
        os.write(STDERR, b"more\n")
    assert log.read_text() == "more\n"
    assert Path(f"{log}.1").read_text() == "many\n" * 100
