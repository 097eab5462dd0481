"""docs/testing.md as it stands, with README's program: as a user's own pytest runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.databases import Server

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def outcome_of(folder: Path, program: str) -> str:
    """Run the page's command in a folder with its files; return what pytest says."""
    folder.mkdir()
    conftest, test = blocks(PAGE, "python")
    files = {"shop.py": program, "conftest.py": conftest, "test_shop.py": test}
    for name, text in files.items():
        (folder / name).write_text(text)
    (command,) = blocks(PAGE, "sh")
    environ = {name: value for name, value in os.environ.items() if "TXRESOLVER_V" not in name}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    ).stdout


def test_the_readmes_program_passes_and_its_two_mistakes_are_told(
    tmp_path: Path, postgresql: Server
) -> None:
    (program,) = blocks(README, "python")
    on_postgresql = program.replace("sqlite:///orders.db", postgresql.new_database())
    said = outcome_of(tmp_path / "good", on_postgresql)
    assert "2 passed" in said, said

    without_id = program.replace("        log.commit(connection, transaction_id)\n", "")
    assert without_id != program
    said = outcome_of(tmp_path / "without-id", without_id)
    assert "2 failed" in said, said
    assert re.search(r"ContractBroken: .*; write the id in the local transaction", said), said
    assert re.search(r"CommitNotConfirmed: .* write its id in the local transaction", said), said
