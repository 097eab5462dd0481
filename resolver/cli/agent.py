"""`txresolver agent`: answers a group's checks in a process of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ..broker.signals import until_stopped
from ..errors import SettingsError
from ..kafka.clients import servers_of
from ..producer.agent import TransactionAgent
from ..producer.agent.listener_path import load_listener
from ..settings import Settings
from ..settings.command import load_for_command
from ..watch.json_log import LogFormat, json_line
from .options import (
    HOME,
    BesideOption,
    ConfigOption,
    LogFormatOption,
    ServersOption,
    SetOption,
    with_servers,
)
from .terminal import terminal

if TYPE_CHECKING:
    from ..watch.agents import AgentMetrics


def agent(
    group: Annotated[str, typer.Option(help="The producer group whose checks it answers.")],
    listener: Annotated[
        str,
        typer.Option(metavar="package.module:Class", help="Its listener, made without arguments."),
    ],
    bootstrap_servers: ServersOption = None,
    home: BesideOption = HOME,
    log_format: LogFormatOption = LogFormat.text,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Answer the checks of a producer group until SIGINT or SIGTERM.

    Prints `ready: group=G` when it is a member of its group. Exits 1 when every thread waits for
    a listener that does not return.
    """
    options = {"bootstrap_servers": bootstrap_servers}
    settings = with_servers(load_for_command(config, assignments, options), home)
    with (
        terminal(home, logging.INFO, log_format),
        until_stopped(),
        _watching(settings) as metrics,
        _agent(group, listener, settings, metrics) as running,
    ):
        if metrics is not None:
            metrics.watch(running)
        if running.wait_ready():
            ready = f"ready: group={group}"
            typer.echo(json_line(ready) if log_format is LogFormat.json else ready)
        running.join()


@contextmanager
def _watching(settings: Settings) -> Iterator[AgentMetrics | None]:
    """Serve metrics and health for the length of a `with`; None without an address."""
    if not settings.agent_metrics_address:
        yield None
        return
    # Imported late: it needs an extra.
    try:
        from ..watch.agents import AgentMetrics
        from ..watch.watch import Watch
    except ModuleNotFoundError as missing:
        raise SettingsError(str(missing)) from None

    metrics = AgentMetrics()
    with Watch(settings.agent_metrics_address) as watch:
        watch.health.needs("agent", lambda: metrics.is_ready)
        watch.show(metrics.values)
        yield metrics


def _agent(
    group: str, listener: str, settings: Settings, metrics: AgentMetrics | None
) -> TransactionAgent:
    return TransactionAgent(
        group,
        servers_of(settings),
        load_listener(listener),
        topic_prefix=settings.topic_prefix,
        op_max_bytes=settings.op_max_bytes,
        op_linger_ms=settings.op_linger_ms,
        end_hooks=() if metrics is None else (metrics,),
        kafka=settings.kafka,
        check_thread_pool_min_size=settings.check_thread_pool_min_size,
        check_thread_pool_max_size=settings.check_thread_pool_max_size,
        check_request_hold_max=settings.check_request_hold_max,
        check_timeout_ms=settings.check_timeout_ms,
    )
