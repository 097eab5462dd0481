"""`txresolver up`: the resolver in the foreground."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from ..settings import load_for_command
from .options import ConfigOption, ServersOption, SetOption

HomeOption = Annotated[Path, typer.Option("--home", help="The folder of all data.")]


def up(
    home: HomeOption = Path(".txresolver"),
    bootstrap_servers: ServersOption = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Take over topics that another home's resolver delivered, or after a lost "
            "checkpoint: what has an outcome is taken as settled.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each batch.")] = False,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Resolve and land until told to stop, with a broker of its own unless servers are given.

    Exits with 3 if another resolver took over.
    """
    settings = load_for_command(config, assignments, {"bootstrap_servers": bootstrap_servers})
    log_to_terminal(logging.DEBUG if verbose else logging.INFO)
    # Imported late: Spark takes a second, which no other command should wait for.
    from pipelines.up import run

    run(home, settings, rebuild, lambda line: typer.echo(line))


def log_to_terminal(level: int) -> None:
    """Let our own loggers speak, on stderr."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    for name in ("resolver", "pipelines"):
        logging.getLogger(name).setLevel(level)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_ours_to_tell)


def _is_ours_to_tell(record: logging.LogRecord) -> bool:
    """Whether a record is not py4j's, which logs by the root logger too.

    What fails in a batch, or is cut short by a stop, Spark passes on; what its end means we say.
    """
    return "py4j" not in Path(record.pathname).parts
