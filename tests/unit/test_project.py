from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resolver.errors import how_to_install
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(
    script for script in (ROOT / "scripts").iterdir() if script.is_file() and script.suffix == ""
)
#: What an application must not load only to send and to answer.
HEAVY = {"pyspark", "pandas", "pyarrow", "numpy", "msgpack", "delta", "typer", "rich", "sqlalchemy"}
LIGHT = [
    "protocol",
    "settings",
    "kafka.topics",
    "producer.producer",
    "producer.listener",
    "producer.agent",
]
LOADED = "import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"


@pytest.mark.parametrize("module", ["resolver", *(f"resolver.{name}" for name in LIGHT)])
def test_the_base_loads_nothing_that_only_spark_or_the_command_needs(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(module=module)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert "resolver" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())


def test_the_command_loads_spark_only_where_it_runs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(module="resolver.cli")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "delta"} & set(done.stdout.split())


def test_set_up_says_what_to_do_where_java_is_not_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "setup"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: JAVA_HOME is {tmp_path}, but there is no")
    assert "openjdk-17-jre-headless" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_each_script_says_how_it_is_used_without_set_up(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [script, "--help"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},  # set-up would fail
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout.startswith(f"usage: scripts/{script.name}")


@pytest.mark.parametrize("name", ["setup", "check"])
def test_a_script_refuses_arguments_that_it_does_not_know(name: str) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / name, "--no-such-option"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
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
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"error: typer is not installed: {how_to_install('cli')}\n"


def test_the_transaction_log_without_its_extra_says_what_to_install() -> None:
    without_sqlalchemy = "import sys; sys.modules['sqlalchemy'] = None; import resolver.sql"
    done = subprocess.run(
        [sys.executable, "-c", without_sqlalchemy],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert f"resolver.sql needs SQLAlchemy: {how_to_install('sql')}" in done.stderr
