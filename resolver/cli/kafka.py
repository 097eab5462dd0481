"""`txresolver kafka`: Kafka's own command-line tools, beside the home's broker."""

from __future__ import annotations

from typing import Annotated

import typer

from ..broker.tools import TOOLS, run_tool
from ..settings import load_for_command
from .options import HOME, BesideOption, with_servers

#: What follows the tool's name is the tool's.
PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def kafka(
    tool: Annotated[str, typer.Argument(help=f"One of {', '.join(TOOLS)}.")],
    arguments: Annotated[
        list[str], typer.Argument(metavar="[ARGUMENTS]...", help="The tool's own arguments.")
    ] = [],  # noqa: B006
    home: BesideOption = HOME,
) -> None:
    """Run a tool of Kafka's, such as `console-consumer --topic orders.placed --from-beginning`.

    Options of this command come before the tool's name. Java's consumers read uncommitted records
    unless told otherwise: give `--isolation-level read_committed`.
    """
    settings = with_servers(load_for_command(), home)
    run_tool(tool, arguments, settings.bootstrap_servers)
