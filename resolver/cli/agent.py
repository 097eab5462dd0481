"""`txresolver agent`: answers a group's checks in a process of its own."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from ..agent import TransactionAgent
from ..listener import load_listener
from ..settings import Settings
from ..settings.command import load_for_command
from .options import ConfigOption, ServersOption, SetOption
from .signals import until_stopped


def agent(
    group: Annotated[str, typer.Option(help="The producer group whose checks it answers.")],
    listener: Annotated[
        str,
        typer.Option(metavar="package.module:Class", help="Its listener, made without arguments."),
    ],
    bootstrap_servers: ServersOption = None,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Answer the checks of a producer group until SIGINT or SIGTERM.

    Prints `ready: group=G` when it is a member of its group. Exits 1 when every thread waits for
    a listener that does not return.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = {"bootstrap_servers": bootstrap_servers}
    settings = load_for_command(config, assignments, options)
    with until_stopped(), _agent(group, listener, settings) as running:
        if running.wait_ready():
            typer.echo(f"ready: group={group}")
        running.join()


def _agent(group: str, listener: str, settings: Settings) -> TransactionAgent:
    return TransactionAgent(
        group,
        settings.bootstrap_servers,
        load_listener(listener),
        topic_prefix=settings.topic_prefix,
        op_max_bytes=settings.op_max_bytes,
        op_linger_ms=settings.op_linger_ms,
        kafka=settings.kafka,
        check_thread_pool_min_size=settings.check_thread_pool_min_size,
        check_thread_pool_max_size=settings.check_thread_pool_max_size,
        check_request_hold_max=settings.check_request_hold_max,
        check_timeout_ms=settings.check_timeout_ms,
    )
