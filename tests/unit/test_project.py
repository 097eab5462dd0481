from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(
    script for script in (ROOT / "scripts").iterdir() if script.is_file() and script.suffix == ""
)
#: What an application must not load only to send and to answer.
HEAVY = {"pyspark", "pandas", "pyarrow", "numpy", "msgpack", "delta", "typer", "rich"}
LIGHT = [
    module
    for module in ("protocol", "settings", "topics", "producer", "listener", "agent")
    if (ROOT / "resolver" / f"{module}.py").exists() or (ROOT / "resolver" / module).is_dir()
]
LOADED = "import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"


@pytest.mark.parametrize("module", ["resolver", *(f"resolver.{name}" for name in LIGHT)])
def test_the_base_loads_nothing_that_only_spark_or_the_command_needs(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(module=module)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "resolver" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())


def test_the_command_loads_spark_only_where_it_runs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(module="resolver.cli")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "delta"} & set(done.stdout.split())


def test_set_up_says_what_to_do_where_java_is_not_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "setup"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: JAVA_HOME is {tmp_path}, but there is no")
    assert "openjdk-17-jre-headless" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_each_script_says_how_it_is_used(script: Path) -> None:
    done = subprocess.run(
        [script, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(f"usage: scripts/{script.name}")


@pytest.mark.parametrize("name", ["setup", "check"])
def test_a_script_refuses_arguments_that_it_does_not_know(name: str) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / name, "--no-such-option"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: scripts/{name}")


def test_the_command_without_its_extra_says_what_to_install() -> None:
    without_typer = "import sys; sys.modules['typer'] = None; from resolver.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", without_typer],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "error: typer is not installed: pip install 'txresolver[cli]'\n"


def test_all_tests_can_be_collected() -> None:
    """Seen here in seconds, and not only when the others' turn comes."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", ROOT / "tests"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
