"""What is installed: the library with its types, and neither a tool nor a test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import pytest

import resolver
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
#: What a build reads.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "resolver", "pipelines", "tests", "scripts")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> set[PurePosixPath]:
    """The files of the wheel, built from a copy: a build leaves its own behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "."]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {PurePosixPath(name) for name in archive.namelist()}


def test_no_tool_and_no_test_is_installed(installed: set[PurePosixPath]) -> None:
    tops = {path.parts[0] for path in installed if not path.parts[0].endswith(".dist-info")}
    assert tops == {"resolver", "pipelines"}
    assert not [path for path in installed if {"bench", "faults", "fuzz"} & {*path.parts}]


def test_all_that_the_library_reads_is_installed(installed: set[PurePosixPath]) -> None:
    there = {
        PurePosixPath(path.relative_to(ROOT).as_posix())
        for folder in ("resolver", "pipelines")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there - installed == set()


def test_the_version_is_that_of_the_project() -> None:
    assert resolver.__version__ == version("txresolver")
