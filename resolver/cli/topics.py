"""`txresolver topics create`: make or verify the protocol's topics."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from ..kafka import admin_client
from ..settings import load_for_command
from ..topics import Topic, ensure_topics
from .options import ConfigOption, ServersOption, SetOption

app = typer.Typer(help="The protocol's topics.", no_args_is_help=True)


@app.callback()
def topics() -> None:
    """Keep `create` a command of its own: typer would merge a single one."""


@app.command()
def create(
    group: Annotated[
        list[str], typer.Option(help="A producer group, for its check topic; repeatable.")
    ] = [],  # noqa: B006
    queues: Annotated[Optional[int], typer.Option(help="Partitions of half and op.")] = None,  # noqa: UP045
    replication_factor: Annotated[Optional[int], typer.Option(help="Replicas of each.")] = None,  # noqa: UP045
    bootstrap_servers: ServersOption = None,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Make the protocol's topics, or verify those that are there."""
    options = {
        "queues": queues,
        "replication_factor": replication_factor,
        "bootstrap_servers": bootstrap_servers,
    }
    settings = load_for_command(config, assignments, options)
    _print(ensure_topics(admin_client(settings), settings, group))


def _print(topics: list[Topic]) -> None:
    names = max(len("topic"), *(len(topic.name) for topic in topics))
    typer.echo(f"{'topic':<{names}}  {'action':<8}  {'partitions':>10}  {'replicas':>8}  note")
    for topic in topics:
        typer.echo(
            f"{topic.name:<{names}}  {topic.action:<8}  {topic.partitions:>10}  "
            f"{topic.replication_factor:>8}  {topic.note}".rstrip()
        )
