"""`txresolver up`: the resolver in the foreground."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..broker.ports import HOST, bootstrap_in, kept_bootstrap
from ..errors import SettingsError
from ..settings import Settings, load_for_command
from ..up.home import Home
from ..watch.json_log import LogFormat, json_line
from ..watch.watching import watching
from .options import (
    HOME,
    ConfigOption,
    HomeOption,
    LogFormatOption,
    PortOption,
    ServersOption,
    SetOption,
)
from .terminal import terminal

#: Lines that a supervisor may wait for: `--quiet` shows these too.
_MILESTONES = ("delivering:", "ready:")


def up(
    home: HomeOption = HOME,
    bootstrap_servers: ServersOption = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Take over topics that another home's resolver delivered, or after a lost "
            "checkpoint: what has an outcome is taken as settled.",
        ),
    ] = False,
    port: PortOption = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Warnings, errors, `delivering:` and `ready:` only.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each batch.")] = False,
    log_format: LogFormatOption = LogFormat.text,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Resolve and land until told to stop, with a broker of its own unless servers are given.

    Says each minute what happened, if anything did. Exits with 3 if another resolver took over.
    """
    settings = load_for_command(config, assignments, {"bootstrap_servers": bootstrap_servers})
    Home(home).make()
    settings = _with_own_broker(settings, Home(home).broker)
    _refuse_contradictions(settings.bootstrap_servers, port, quiet, verbose)
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO

    def say(line: str) -> None:
        if not quiet or line.startswith(_MILESTONES):
            typer.echo(json_line(line) if log_format is LogFormat.json else line)

    with terminal(home, level, log_format), watching(settings, "resolve", "land") as watch:
        # Imported late: Spark takes a second, which no other command should wait for.
        from ..up.run import run

        run(home, settings, rebuild, say, port, watch)


def _with_own_broker(settings: Settings, folder: Path) -> Settings:
    """Let the home's broker be started though its address is set, as a user's shell exports it."""
    servers = settings.bootstrap_servers.replace("localhost:", f"{HOST}:")
    if servers != kept_bootstrap(folder) or bootstrap_in(folder) is not None:
        return settings
    return replace(settings, bootstrap_servers="")


def _refuse_contradictions(servers: str, port: int | None, quiet: bool, verbose: bool) -> None:
    if quiet and verbose:
        raise SettingsError(
            "--quiet and --verbose contradict each other", remedy="give one of them"
        )
    if port is not None and servers:
        raise SettingsError(
            f"--port {port} is for a broker of its own, and with bootstrap_servers {servers} none "
            "is started",
            remedy="give one of the two",
        )
