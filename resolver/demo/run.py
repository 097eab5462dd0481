"""Running the demo in a home: one at a time, its end told and cleaned up after."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from confluent_kafka import KafkaException
from rich.console import Console

from ..errors import DemoError, TxResolverError
from ..locks import FileLock
from .comparison import Comparison
from .play import Play, kills_in
from .report import print_report
from .screen import Screen
from .shortened import described
from .stage import Interrupted, Stage
from .view import Lines, Scene, View

#: What is left of a demo that was killed may still be ending.
_DYING_SECONDS = 90.0
_INTERRUPTED = 130


def run_demo(path: Path, seconds: float, rate: float) -> int:
    """Show the demo in home `path` and print the comparison; return the exit code."""
    home = path.resolve()
    console = Console()
    with FileLock(home / "demo.lock") as lock:
        if not lock.acquire_after(_DYING_SECONDS):
            raise DemoError(
                f"process {lock.owner()} shows a demo in home {home}: wait for its end, or give "
                "another with --home"
            )
        _log_to(home / "logs" / "demo.log")
        print(f"Settings that are shortened, in {home / 'demo.toml'}:\n{described()}", flush=True)
        scene = Scene(seconds, kills_in(seconds))
        stage = Stage(home, scene, _view(console), lock.fileno())
        try:
            result = _played(stage, rate)
        except Interrupted:
            console.print("Interrupted: everything is stopped; nothing was compared.")
            return _INTERRUPTED
    print_report(console, result, stage.database_file, home)
    return 0 if result.holds else 1


def _played(stage: Stage, rate: float) -> Comparison:
    try:
        with stage.heeding_signals(), stage:
            return Play(stage, rate).run()
    except (TxResolverError, KafkaException, OSError, sqlite3.Error) as error:
        raise DemoError(f"the demo failed: {error}\nThe logs are in {stage.logs}") from error


def _view(console: Console) -> View:
    return Screen(console) if console.is_terminal else Lines()


def _log_to(file: Path) -> None:
    """Keep all loggers, librdkafka's among them, from the terminal."""
    file.parent.mkdir(parents=True, exist_ok=True)
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(filename=file, level=logging.INFO, format=form, force=True)
