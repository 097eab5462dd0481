"""The command `txresolver`: a module for each of its commands, registered here.

What a command needs beyond this project's base is imported when it runs, not here.
"""

from __future__ import annotations

import sys

try:
    import typer
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"error: {missing.name} is not installed: pip install 'txresolver[cli]'"
    ) from None

from ..errors import TxResolverError
from . import agent, audit, broker, config, demo, topics, up

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
app.command()(up.up)
app.add_typer(topics.app, name="topics")


def main() -> None:
    """Run the command; an error of ours is one line, and its exit code says which kind."""
    try:
        app(prog_name="txresolver")
    except TxResolverError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
