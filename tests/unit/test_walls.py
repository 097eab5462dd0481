"""A home that can't be used is refused in one line by every command, before any JVM starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resolver import Message, TransactionListener, TransactionStatus
from resolver.cli import main

COMMANDS = {
    "up": ["up"],
    "broker": ["broker"],
    "demo": ["demo"],
    "audit": ["audit"],
    "audit of topics": ["audit", "--topics"],
    "topics": ["topics", "create"],
    "agent": ["agent", "--group", "orders", "--listener", f"{__name__}:Silent"],
}


class Silent(TransactionListener):
    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.UNKNOWN


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "home"


def a_file(folder: Path) -> Path:
    (folder / "home").touch()
    return folder / "home"


def links_in_a_circle(folder: Path) -> Path:
    (folder / "home").symlink_to(folder / "other")
    (folder / "other").symlink_to(folder / "home")
    return folder / "home"


def a_name_that_is_too_long(folder: Path) -> Path:
    return folder / ("h" * 300)


def where_nobody_may_write(folder: Path) -> Path:
    """Root is no exception here."""
    return Path("/proc/home")


def with_a_file(name: str) -> Callable[[Path], Path]:
    def home(folder: Path) -> Path:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
        return folder

    return home


def with_a_folder(name: str) -> Callable[[Path], Path]:
    def home(folder: Path) -> Path:
        (folder / name).mkdir(parents=True)
        return folder

    return home


WALLS: dict[str, Callable[[Path], Path]] = {
    "a file": a_file,
    "below a file": below_a_file,
    "links in a circle": links_in_a_circle,
    "a name that is too long": a_name_that_is_too_long,
    "where nobody may write": where_nobody_may_write,
    "its broker is a file": with_a_file("broker"),
    "its logs are a file": with_a_file("logs"),
    "its tables are a file": with_a_file("tables"),
    "its checkpoints are a file": with_a_file("checkpoints"),
    "its spark is a file": with_a_file("spark"),
    "its lock is a folder": with_a_folder("lock"),
    "its ports are a folder": with_a_folder("broker/ports.json"),
}


@pytest.mark.parametrize("wall", WALLS.values(), ids=list(WALLS))
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_a_home_that_cannot_be_used_is_refused_in_a_line(
    command: list[str],
    wall: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["txresolver", *command, "--home", str(wall(tmp_path))])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr()
    assert ended.value.code in (1, 2, 4)
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.parametrize("wall", WALLS.values(), ids=list(WALLS))
@pytest.mark.parametrize("command", ["up", "broker", "demo"])
def test_the_refusal_names_the_home_and_the_remedy(
    command: str,
    wall: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    home = wall(tmp_path)
    monkeypatch.setattr(sys, "argv", ["txresolver", command, "--home", str(home)])
    with pytest.raises(SystemExit):
        main()
    said = capfd.readouterr().err
    assert home.name in said
    assert "can't be used" in said
    assert said.endswith("; give a folder that you may write to, with --home\n")
