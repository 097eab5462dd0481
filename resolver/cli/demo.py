"""`txresolver demo`: the whole loop with a real application, and a comparison at its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..up.home import Home


def demo(
    home: Annotated[Path, typer.Option(help="The folder of all its data.")] = Path(
        ".txresolver/demo"
    ),
    seconds: Annotated[float, typer.Option(min=5, help="For how long orders are placed.")] = 60,
    rate: Annotated[float, typer.Option(min=1, max=1000, help="Orders a second.")] = 60,
) -> None:
    """Show an order service whose transactions commit, roll back, hang and lose their process.

    Kafka, the resolver, the service and its agent run on this machine, with shortened settings;
    the service is killed now and then. At the end each committed order must have been delivered
    exactly once, bit for bit, and no other: else the exit code is 1. Ctrl-C stops it early (130).
    """
    Home(home).make()
    from ..demo.steps import run_demo

    sys.exit(run_demo(home, seconds, rate))
