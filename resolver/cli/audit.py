"""`txresolver audit`: the ledger against the rules, and on request against the topics."""

from __future__ import annotations

import json
import logging
import sys
from typing import Annotated, Optional

import typer

from ..settings import load_for_command
from .options import HOME, ConfigOption, HomeOption, ServersOption, SetOption
from .up import log_to_terminal


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
    settings = load_for_command(config, assignments, {"bootstrap_servers": bootstrap_servers})
    log_to_terminal(logging.WARNING)
    # Imported late: Spark takes a second, which no other command should wait for.
    from pipelines.audit import run

    report = run(settings, tables or str(home / "tables"), topics, examples)
    typer.echo(json.dumps(report.as_json(), indent=2) if as_json else "\n".join(report.lines()))
    sys.exit(0 if report.holds else 1)
