"""The command `maintain`: removes old days of the tables, and puts files together."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated

import typer

from ..settings import load_for_command
from .ledger import OutputOption, TablesOption, opened
from .options import HOME, BesideOption, ConfigOption, SetOption
from .rows import Output, write


def maintain(
    home: BesideOption = HOME,
    tables: TablesOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
    output: OutputOption = Output.text,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Remove the days that the settings `keep_…_days` do not keep, and compact the others.

    May run beside `up` and land, and be begun again after a kill.
    """
    ledger = opened(home, tables, None, config, assignments)
    from ..operations import maintain as maintained

    settings = load_for_command(config, assignments)
    done = maintained(ledger, settings, datetime.now(timezone.utc), dry_run)
    rows = [{**asdict(table), "kept_from": str(table.kept_from or "")} for table in done]
    write(rows, ("table", "kept_from", "removed", "compacted"), output, "There are no tables.")
