"""`txresolver audit`: the ledger against the rules, and on request against the topics."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Optional
from urllib.parse import urlsplit

import typer

from ..errors import AuditError, NoBroker
from ..kafka.reach import await_broker
from ..settings import Settings, load_for_command
from ..up.home import Home
from .options import HOME, ConfigOption, HomeOption, ServersOption, SetOption, with_servers
from .terminal import terminal

#: Settings of a checkpoint by which an audit judges, each with the name that a user knows.
_JUDGED_BY = {
    "topic_prefix": "topic_prefix",
    "transaction_timeout_ms": "transaction_timeout_ms",
    "transaction_check_interval_ms": "transaction_check_interval_ms",
    "transaction_check_max": "transaction_check_max",
    "count_unanswered_checks": "count_unanswered_checks",
    "check_backoff_max_ms": "check_backoff_max_ms",
    "file_reserved_ms": "file_reserved_hours in ms",
    "max_checks": "max_checks_per_batch / queues",
    "max_output_bytes": "max_bytes_per_trigger / queues",
}


def audit(
    home: HomeOption = HOME,
    tables: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it when the module is loaded, also on 3.10
        typer.Option(help="The folder of the Delta tables; HOME/tables if not given."),
    ] = None,
    topics: Annotated[
        bool, typer.Option("--topics", help="Compare with the real topics too.")
    ] = False,
    examples: Annotated[int, typer.Option(min=1, help="Violations shown of each kind.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    bootstrap_servers: ServersOption = None,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Recompute every outcome from the landed halves and ops, and compare.

    May run beside the resolver. Exits 1 where something is violated, 4 where it can't be known.
    """
    options = {"bootstrap_servers": bootstrap_servers}
    settings = with_servers(load_for_command(config, assignments, options), home)
    folder = tables or str(Home(home).tables)
    with terminal(home):
        # Refuse what is wrong now: Spark's start takes long.
        if topics:
            _await_broker(settings)
        _refuse_missing(folder)
        if tables is None:
            _warn_of_others(home, settings)
        # Imported late: Spark takes a second, which no other command should wait for.
        from ..audit.job import run

        report = run(settings, folder, topics, examples)
    typer.echo(json.dumps(report.as_json(), indent=2) if as_json else "\n".join(report.lines()))
    sys.exit(0 if report.holds else 1)


def _await_broker(settings: Settings) -> None:
    try:
        await_broker(settings)
    except NoBroker as error:
        raise AuditError(error.message, error.remedy) from error


def _refuse_missing(tables: str) -> None:
    """Refuse a folder of this machine that has no tables; Spark alone can look at a URI."""
    if urlsplit(tables).scheme:
        return
    try:
        has_table = any(Path(tables, name, "_delta_log").is_dir() for name in os.listdir(tables))
    except OSError as error:
        raise _no_tables(tables, f"can't be read: {error.strerror}") from error
    if not has_table:
        raise _no_tables(tables, "has no tables")


def _no_tables(tables: str, why: str) -> AuditError:
    return AuditError(
        f"{tables} {why}",
        remedy="start `txresolver up`, which lands tables, or give its --home, or the folder of "
        "the tables with --tables",
    )


def _warn_of_others(home: Path, settings: Settings) -> None:
    """Say where the home's resolver decides by other settings than the audit is to judge by."""
    # Imported late: it takes numpy, which other commands do without.
    from ..resolve.planned_settings import step_settings

    theirs, ours = _decides_by(home), asdict(step_settings(settings))
    others = [
        f"{shown}={theirs[name]} (here {ours[name]})"
        for name, shown in _JUDGED_BY.items()
        if name in theirs and theirs[name] != ours[name]
    ]
    if others:
        typer.echo(
            f"warning: the resolver of {home} decides by {', '.join(others)}: what is right by its "
            "settings may look wrong by these. Give the --config and --set that it has",
            err=True,
        )


def _decides_by(home: Path) -> dict[str, Any]:
    """Return what the home's checkpoint was last started with; empty where that can't be read."""
    folder = Home(home).resolve_checkpoint / "settings"
    try:
        last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        return dict(json.loads((folder / str(last)).read_text())["settings"])
    except (OSError, ValueError, LookupError, TypeError):
        return {}
