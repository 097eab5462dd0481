"""A model and what spin finds in it: every state is visited, or an error is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: Steps of one run. Where a run is longer the search is cut short, which is an error.
_DEPTH = 20_000
#: Memory in MiB that a search may take.
_MEMORY_MB = 12_000


class ModelError(Exception):
    """The model could not be searched, or not all of it."""


class Verdict(NamedTuple):
    """How many states were visited, and the steps to the violated assertion, where one was."""

    states: int
    violated: str | None = None
    steps: tuple[str, ...] = ()


def search(model: Path, macros: Mapping[str, int], folder: Path, optimise: str = "-O0") -> Verdict:
    """Visit every state of the model with these macros, in `folder`, until an assertion fails."""
    _need("spin", "gcc")
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    _run(folder, "spin", "-a", *defined, str(model))
    limits = ["-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={_MEMORY_MB}"]
    _run(folder, "gcc", optimise, "-w", *limits, "-o", "pan", "pan.c")
    said = _run(folder, "./pan", f"-m{_DEPTH}")
    states = int(_part(r"(\d+) states, stored", said))
    if _part(r"errors: (\d+)", said) != "0":
        violated, steps = _replay(model, defined, folder)
        return Verdict(states, violated, steps)
    if "search depth too small" in said or "Search not completed" in said:
        raise ModelError(f"not every state was visited:\n{said}")
    return Verdict(states)


def _replay(model: Path, defined: list[str], folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the name of the assertion that failed, the comment behind it, and what led there."""
    trail = f"{model.name}.trail"
    said = _run(folder, "spin", "-T", "-t", *defined, "-k", trail, str(model))
    line = int(_part(rf"{re.escape(model.name)}:(\d+), Error: assertion violated", said))
    assertion = model.read_text().splitlines()[line - 1]
    steps = said.partition("spin: ")[0].splitlines()
    return _part(r"/\* (.*) \*/", assertion), tuple(step.strip() for step in steps if step.strip())


def _need(*commands: str) -> None:
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        raise ModelError(
            f"{' and '.join(missing)} not found: run scripts/setup --tests, or on Debian "
            f"apt-get install {' '.join(missing)}"
        )


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ModelError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _part(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    if found is None:
        raise ModelError(f"no {pattern!r} in:\n{said}")
    return found[1]
