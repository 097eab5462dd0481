"""What may be spoilt: files of a home, but those that nobody would miss."""

from __future__ import annotations

import json
from pathlib import Path

from resolver.up.home import Home
from tests.faults.damage import files, rows


def test_any_file_below_a_folder_is_found(tmp_path: Path) -> None:
    state = tmp_path / "checkpoints" / "resolve" / "spark" / "state"
    state.mkdir(parents=True)
    for name in ("1.zip", ".1.zip.crc"):
        (state / name).touch()
    (tmp_path / "checkpoints" / "resolve" / "identity").touch()
    found = files("checkpoints/resolve/**/*")(Home(tmp_path))
    assert [file.name for file in found] == ["identity", "1.zip"]


def test_rows_are_in_the_files_that_the_log_has_not_removed(tmp_path: Path) -> None:
    log = tmp_path / "tables" / "half" / "_delta_log"
    log.mkdir(parents=True)
    write_commit(log, 0, {"metaData": {}})
    write_commit(log, 1, {"add": {"path": "date=2026-11-22/1"}})
    write_commit(log, 2, {"add": {"path": "date=2026-11-22/2"}})
    write_commit(log, 3, {"remove": {"path": "date=2026-11-22/1"}}, {"add": {"path": "date=2/3"}})
    found = [str(file.relative_to(log.parent)) for file in rows(Home(tmp_path))]
    assert found == ["date=2/3", "date=2026-11-22/2"]


def test_a_damaged_log_tells_of_none(tmp_path: Path) -> None:
    for table, damage in (("half", "lost"), ("op", "torn")):
        log = tmp_path / "tables" / table / "_delta_log"
        log.mkdir(parents=True)
        for number in range(3):
            write_commit(log, number, {"add": {"path": f"date=2026-11-22/{number}"}})
        commit = log / f"{1:020}.json"
        if damage == "lost":
            commit.unlink()
        else:
            commit.write_text(commit.read_text()[:-5] + "\0" * 5)
    assert rows(Home(tmp_path)) == []


def write_commit(log: Path, number: int, *actions: object) -> None:
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{number:020}.json").write_text(text)
