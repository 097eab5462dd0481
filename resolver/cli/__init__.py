"""The command `txresolver`: a module for each of its commands, registered here.

What a command needs beyond this project's base is imported when it runs, not here.
"""

from __future__ import annotations

import sys
from typing import Annotated

from .. import __version__
from ..errors import TxResolverError, how_to_install

try:
    import typer
except ModuleNotFoundError as missing:
    raise SystemExit(f"error: {missing.name} is not installed: {how_to_install('cli')}") from None

from . import (
    act,
    agent,
    audit,
    broker,
    config,
    demo,
    doctor,
    erase,
    kafka,
    ledger,
    maintain,
    topics,
    up,
    what_if,
)

__all__ = ["app", "main"]

app = typer.Typer(
    help="Transactional messages (half, op, check-back) on Kafka, Spark and Delta.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(agent.agent)
app.command()(audit.audit)
app.command()(broker.broker)
app.command()(config.config)
app.command()(demo.demo)
app.command()(doctor.doctor)
app.command(context_settings=kafka.PASSED_ON)(kafka.kafka)
app.command()(up.up)
app.command()(ledger.status)
app.command()(ledger.show)
app.command()(ledger.why)
app.command()(ledger.failures)
app.command()(ledger.groups)
app.command()(ledger.diff)
app.command("list")(ledger.list_)
app.command("what-if")(what_if.what_if)
app.command()(act.settle)
app.command()(act.resume)
app.command()(act.ask)
app.command()(act.replay)
app.command()(erase.erase)
app.command()(maintain.maintain)
app.command()(act.log)
app.command("continue")(act.continue_)
app.add_typer(topics.app, name="topics")


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"txresolver {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Give the options that need no command."""


def main() -> None:
    """Run the command; an error of ours is one line, and its exit code says which kind.

    So is an error about a file or a folder: it is the user's, and no traceback says more.
    """
    try:
        app(prog_name="txresolver")
    except TxResolverError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(TxResolverError.exit_code)
